"""An order desk whose worker process is killed in the middle of a refund.

``stage`` starts the workers, kills the first and follows the log; ``worker`` is what such a
process runs, on the tools of ``desk``; ``verdict`` judges what came of it, from the stream, the
data set and the log of what was really called.
"""
