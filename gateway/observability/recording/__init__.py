"""Recording of requests: workers write rows to a spool, and an importer moves them to the store.

The way of a record:

1. A request ends. `RequestLog` collects it with others, for 0.2 s or until there are 64, and makes
   their access lines (`gateway/assembly/request_log.py`).
2. The lines of a batch, as they are, and rows for what they do not have, go to the `FileRecorder`
   of the process (`recorder.py`). Its thread appends them to a file of its own as frames with a
   length and a checksum (`frames.py`), and syncs the file, every 0.75 s or more often: a process
   that is killed loses no more than its last second.
3. The spool is the folder of these files (`spool.py`). A writer holds a lock on its file as long as
   it lives, and the kernel releases it: a file that can be locked is finished. The folder belongs
   to one store (`spool_owner.py`).
4. One process per gateway imports, once per second, the oldest file first (`importer.py`). It
   expands lines to rows (`rows_from_request.py`), and writes rows and the position in the file up
   to which it has read in one transaction. After a crash it takes the position from the store, so
   each row counts once.
5. A finished file is removed when the store has all of it. An incomplete frame at its end, whose
   writer died, is ignored; a file with a wrong checksum is kept, and not read again.
6. The leader starts that process once the gateway serves, restarts it when it dies, and shows what
   it reports (`importer_process.py`, `import_program.py`).

While the store is away, the spool grows, at most to `store.max_spool_bytes`. While the disk fails
or the spool is full, rows wait in memory, about 100,000 of them; more are lost, and counted. With
`store.usage: required`, the gateway then refuses requests.

Audit events take the same way in a spool of their own (`audit_recorder.py`, `audit_importer.py`).
"""
