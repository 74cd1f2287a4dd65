"""Where a store is: the server, the database, and the schema in it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from math import ceil
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict

from ...events.errors import NotAStore

SCHEMA = "turnstream"
_NAME = re.compile(r"[a-z_][a-z0-9_]{0,47}")
_SECRETS = ("password", "sslpassword")

# A machine that is gone without a word is noticed within half a minute, not after hours.
_KEPT_ALIVE = {
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "30000",
    "fallback_application_name": "turnstream",
}


class Place:
    """A schema of a database. ``parameters`` connect to it, ``timeout`` is how long to wait for
    the server and for other writers, in seconds, ``label`` names it without any secret."""

    def __init__(self, conninfo: str, *, schema: str = SCHEMA, timeout: float = 5.0) -> None:
        if not _NAME.fullmatch(schema) or schema.startswith("pg_"):
            raise NotAStore(
                "a schema's name is lower-case letters, digits and _, at most 48, and does not "
                "begin with pg_"
            )
        given = _parameters(conninfo)
        self.schema = schema
        self.timeout = timeout
        self.label: str = _label(given, schema)
        self._secrets = [str(given[key]) for key in _SECRETS if given.get(key)]
        self.parameters: Mapping[str, Any] = {
            **_KEPT_ALIVE,
            "connect_timeout": self.connect_seconds,
            **given,
            "client_encoding": "utf8",
        }

    @property
    def connect_seconds(self) -> int:
        """How long a new connection may take; the client library takes whole seconds from 2."""
        return max(2, ceil(self.timeout))

    @property
    def search_path(self) -> str:
        """Where the names in our statements are found."""
        return f'"{self.schema}", pg_temp'

    @property
    def channel(self) -> str:
        """Where appends are told of."""
        return f"{self.schema}.log"

    def without_secrets(self, text: str) -> str:
        """A text of the client library's, in which no secret is left."""
        for secret in self._secrets:
            text = text.replace(secret, "***")
        return text

    def __str__(self) -> str:
        return self.label

    def __repr__(self) -> str:
        return f"Place({self.label!r})"


def _parameters(conninfo: str) -> dict[str, Any]:
    try:
        return dict(conninfo_to_dict(conninfo))
    except psycopg.Error:
        # What the library says quotes what was written, which may be a password.
        raise NotAStore(
            "this is no address of a PostgreSQL database; write "
            "postgresql://user:password@host:port/database, and what is special in a user or "
            "password as %XX; options are schema, timeout, pool, and those of libpq"
        ) from None


def _label(given: Mapping[str, Any], schema: str) -> str:
    user = f"{given['user']}@" if given.get("user") else ""
    port = f":{given['port']}" if given.get("port") else ""
    end = "" if schema == SCHEMA else f"?schema={schema}"
    return f"postgresql://{user}{given.get('host', '')}{port}/{given.get('dbname', '')}{end}"
