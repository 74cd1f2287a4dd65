"""Every error turnstream raises.

    TurnstreamError
    ├── InvalidSessionId          the id can't name a session
    ├── Unstorable                a value can't be stored, with the path to the piece at fault
    ├── NotSupported              asked for something this version does not do
    ├── StoreError
    │   ├── WrongExpectedVersion  the stream is not where the writer took it to be
    │   ├── SessionDeleted        the stream was deleted; its id is not used again
    │   ├── StoreBusy             another writer held the store for too long
    │   ├── StoreUnavailable      the disk is full, the file is read-only, the server is away
    │   ├── StoreClosed           used after close
    │   ├── NotAStore             the address holds something else
    │   ├── StoreTooNew           written by a newer turnstream
    │   └── CorruptEvent          a stored event can't be read, or the chain is broken
    ├── SessionError
    │   ├── SessionNotFound       no such session
    │   ├── SessionExists         the id is taken
    │   ├── CheckpointNotFound    the session was never at this step, version or time
    │   ├── UnknownAgent          the session's agent is not among the system's
    │   ├── NothingUnfinished     there is no turn to go on with
    │   ├── SessionReadOnly       the stream holds events this version does not know
    │   ├── SessionAwaitingApproval  a decision comes first
    │   ├── ApprovalNotFound      no such approval
    │   ├── ApprovalDecided       the decision was taken before
    │   ├── ArgumentsRefused      edited arguments do not fit the tool
    │   ├── AgentDrifted          the agent is not what began the turn
    │   ├── SessionCrashed        its actor failed; the stream is as it was
    │   ├── ErasureRefused        the content can't be erased now
    │   ├── IllegalTransition     the event can't happen in this state
    │   ├── InputConflict         a key or run id was used before, with another input
    │   ├── RunExists             there is a run of this id, where there was to be none
    │   └── RunNotFound           there is no run of this id
    ├── TurnError
    │   ├── ModelFailed           the model raised
    │   │   ├── ModelUnavailable  overloaded or away: asking again may help
    │   │   ├── ModelRefused      the provider does not take the request
    │   │   └── ContextTooLong    the conversation is longer than the model can read
    │   ├── ModelStreamEnded      the model's stream ended without its closing turn
    │   ├── ModelTimedOut         the model took longer than it may
    │   ├── InvalidModelTurn      what the model answered is no turn
    │   ├── InvalidOutput         its final answers do not fit the output type
    │   ├── HookFailed            a hook around the model raised
    │   ├── TurnWithdrawn         the input was taken back before it was used
    │   ├── TurnTakenOver         a younger node runs the turn
    │   ├── StateRefused          a call may change the state no more
    │   ├── StepRefused           a durable step can't be taken or recorded here
    │   ├── StepConflict          a step of this key was recorded with other arguments
    │   ├── RunBusy               a journal's run of this id is under way
    │   └── ToolError             for tools to raise: its text is what the model reads
    ├── ActorError
    │   ├── MailboxFull           nothing was accepted; try again
    │   ├── SystemClosed          the system no longer accepts
    │   └── WouldDeadlock         the wait could never end
    ├── InvalidAgent              an agent or tool is declared wrongly
    ├── InvalidTranscript         a conversation that no provider would accept
    ├── DamagedFile               an exported file is not as it was written
    └── ScriptExhausted           a scripted model was asked more often than its script is long

``code`` is stable and fit for programs; the text says what happened, to what, and what to do
next. Payloads and secrets are never part of it.
"""

from __future__ import annotations

from .root import (
    DamagedFile,
    InvalidAgent,
    InvalidSessionId,
    InvalidTranscript,
    NotSupported,
    ScriptExhausted,
    TurnstreamError,
    Unstorable,
)
from .runtime import (
    ActorError,
    MailboxFull,
    SystemClosed,
    WouldDeadlock,
)
from .sessions import (
    AgentDrifted,
    ApprovalDecided,
    ApprovalNotFound,
    ArgumentsRefused,
    CheckpointNotFound,
    ErasureRefused,
    IllegalTransition,
    InputConflict,
    NothingUnfinished,
    RunExists,
    RunNotFound,
    SessionAwaitingApproval,
    SessionCrashed,
    SessionError,
    SessionExists,
    SessionNotFound,
    SessionReadOnly,
    UnknownAgent,
)
from .stores import (
    CorruptEvent,
    NotAStore,
    SessionDeleted,
    StoreBusy,
    StoreClosed,
    StoreError,
    StoreTooNew,
    StoreUnavailable,
    WrongExpectedVersion,
)
from .turns import (
    ContextTooLong,
    HookFailed,
    InvalidModelTurn,
    InvalidOutput,
    ModelFailed,
    ModelRefused,
    ModelStreamEnded,
    ModelTimedOut,
    ModelUnavailable,
    RunBusy,
    StateRefused,
    StepConflict,
    StepRefused,
    ToolError,
    TurnError,
    TurnTakenOver,
    TurnWithdrawn,
)

__all__ = [
    "ActorError",
    "AgentDrifted",
    "ApprovalDecided",
    "ApprovalNotFound",
    "ArgumentsRefused",
    "CheckpointNotFound",
    "ContextTooLong",
    "CorruptEvent",
    "DamagedFile",
    "ErasureRefused",
    "HookFailed",
    "IllegalTransition",
    "InputConflict",
    "InvalidAgent",
    "InvalidModelTurn",
    "InvalidOutput",
    "InvalidSessionId",
    "InvalidTranscript",
    "MailboxFull",
    "ModelFailed",
    "ModelRefused",
    "ModelStreamEnded",
    "ModelTimedOut",
    "ModelUnavailable",
    "NotAStore",
    "NotSupported",
    "NothingUnfinished",
    "RunBusy",
    "RunExists",
    "RunNotFound",
    "ScriptExhausted",
    "SessionAwaitingApproval",
    "SessionCrashed",
    "SessionDeleted",
    "SessionError",
    "SessionExists",
    "SessionNotFound",
    "SessionReadOnly",
    "StateRefused",
    "StepConflict",
    "StepRefused",
    "StoreBusy",
    "StoreClosed",
    "StoreError",
    "StoreTooNew",
    "StoreUnavailable",
    "SystemClosed",
    "ToolError",
    "TurnError",
    "TurnTakenOver",
    "TurnWithdrawn",
    "TurnstreamError",
    "UnknownAgent",
    "Unstorable",
    "WouldDeadlock",
    "WrongExpectedVersion",
]
