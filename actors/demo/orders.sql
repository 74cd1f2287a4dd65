-- The order desk's data set. The refunds are what the demo adds.

CREATE TABLE orders (
    id       TEXT PRIMARY KEY,
    customer TEXT NOT NULL,
    item     TEXT NOT NULL,
    status   TEXT NOT NULL CHECK (status IN ('packed', 'shipped', 'delivered', 'lost')),
    cents    INTEGER NOT NULL CHECK (cents > 0)
);

-- One row for each idempotency key, whatever happens: this is what makes a refund safe to repeat.
CREATE TABLE refunds (
    idempotency_key TEXT PRIMARY KEY,
    order_id        TEXT NOT NULL REFERENCES orders (id),
    cents           INTEGER NOT NULL CHECK (cents > 0),
    attempt         INTEGER NOT NULL
);

INSERT INTO orders (id, customer, item, status, cents) VALUES
    ('A-1001', 'Imre Halloway',   'oak bookshelf',        'delivered', 18900),
    ('A-1002', 'Tomoko Brandt',   'garden hose, 20 m',    'shipped',    2450),
    ('A-1003', 'Maya Lindqvist',  'blue desk lamp',       'delivered',  3990),
    ('A-1004', 'Noor Castellano', 'set of six glasses',   'delivered',  2700),
    ('A-1005', 'Jonas Lindqvist', 'steel kettle',         'shipped',    5450),
    ('A-1006', 'Imre Halloway',   'reading glasses',      'packed',     1290),
    ('A-1007', 'Maya Lindqvist',  'wool blanket',         'lost',       6400),
    ('A-1008', 'Tomoko Brandt',   'bird feeder',          'delivered',  1675),
    ('A-1009', 'Noor Castellano', 'wall clock',           'shipped',    4100),
    ('A-1010', 'Maya Lindqvist',  'cork notice board',    'delivered',  2150);
