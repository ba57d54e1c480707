proxy = Unit(app)
cluster.begin()
app.wait_for_open_port(5432)

with subtest("writes go to the leader, reads to the replica"):
    at = 'psql --no-psqlrc -v ON_ERROR_STOP=1 -Atq "host=127.0.0.1 user=postgres dbname=postgres port=%d" -c "%s"'
    app.succeed(at % (5432, "CREATE TABLE moved (n int); INSERT INTO moved VALUES (1)"))
    app.wait_until_succeeds(at % (5433, "SELECT 1 / count(*) FROM moved"), timeout=10)
    app.wait_until_succeeds(f"test $({proxy.psql(port=5433)}) = t", timeout=15)

with subtest("and after a switchover still"):
    cluster.switchover()
    cluster.followed()
    app.succeed(at % (5432, "INSERT INTO moved VALUES (2)"))
    proxy.writes()
