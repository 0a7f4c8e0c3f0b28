package attack

import (
	"testing"

	"github.com/seed-018f16cc/toolbus/subjects"
)

// callers are those who ask, and everybody is everybody.
func callers() []string   { return []string{bob, mallory, door, auditor, auditorOfAll, operator} }
func executors() []string { return []string{insider, outsider} }
func everybody() []string { return append(callers(), executors()...) }

// Nobody writes what is not theirs to write: the log, the record, buckets, chunks and payloads of others.
func TestWrites(t *testing.T) {
	t.Parallel()
	d := deploy(t)
	key, err := subjects.ParseRef(d.victim.Ref)
	d.ok(err)
	in, out := d.crowd[insider].instance, d.crowd[outsider].instance
	chunk := chunkOf(key)
	payload := subjects.Owner{Tenant: "acme", Actor: alice}.On("default").Payload("00", 0)
	table := []row{
		{name: "admit a call", as: everybody(), publish: key.Request(1, "0.1.0", "normal", "default")},
		{name: "admit another attempt", as: everybody(), publish: key.Request(2, "0.1.0", "high", "default")},
		{name: "join a call", as: everybody(), publish: key.Join(1)},
		{name: "claim the call as its executor", as: everybody(), publish: key.Claim(1, d.real)},
		{name: "decide the call as its executor", as: everybody(), publish: key.Outcome(1, d.real)},
		{name: "decide a tool of another pool", as: append(callers(), outsider), publish: key.Outcome(1, out)},
		{name: "claim a tool of another pool", as: append(callers(), outsider), publish: key.Claim(1, out)},
		{name: "decide a tool of another pool", as: append(callers(), insider),
			publish: subjects.Key{Tool: "vault", ID: key.ID}.Outcome(1, in)},
		{name: "decide a tool that is none", as: everybody(),
			publish: subjects.Key{Tool: "other", ID: key.ID}.Outcome(1, in)},
		{name: "decide in a partition that is none", as: everybody(),
			publish: subjects.Key{Tool: "hold", ID: key.ID, Partition: 1}.Outcome(1, in)},
		{name: "write to the log what is no event", as: everybody(), publish: "$KV.calls.hold.x"},

		{name: "write to the record", as: everybody(), publish: subjects.Partition(0).Audit("acme")},
		{name: "write to the record as a dispatcher", as: everybody(), publish: subjects.JournalSubject("d", "acme")},
		{name: "write refusals", as: everybody(), publish: subjects.Denied("d", "acme")},
		{name: "bury a call", as: everybody(), publish: subjects.Dead("acme", "hold")},

		{name: "put a key of tokens", as: everybody(), publish: subjects.SigningKey("00")},
		{name: "revoke a token", as: everybody(), publish: subjects.Revoked(d.crowd[alice].Family)},
		{name: "bar an actor", as: everybody(), publish: subjects.RevokedActor("acme", alice)},
		{name: "list a token", as: everybody(), publish: subjects.Issued("x")},
		{name: "beat for the executor", as: everybody(), publish: subjects.PoolSubject("default", d.real)},
		{name: "beat in another pool", as: append(callers(), outsider), publish: subjects.PoolSubject("default", out)},
		{name: "beat with a name of its own choice", as: everybody(), publish: subjects.PoolSubject("default", "nobody")},
		{name: "write to another bucket", as: everybody(), publish: "$KV.registry.echo"},
		{name: "write to an object store", as: everybody(), publish: "$O.any.C.x"},

		{name: "send chunks of another's call", as: append(callers(), outsider), publish: chunk},
		{name: "store for another actor", as: []string{bob, mallory, auditor, auditorOfAll, operator, outsider},
			publish: payload},
		{name: "store for another tenant", as: []string{mallory, auditor, operator},
			publish: subjects.Owner{Tenant: "acme", Actor: mallory}.On("default").Payload("00", 0)},
		{name: "store for another tenant, as a door", as: []string{door},
			publish: subjects.Owner{Tenant: "evil", Actor: mallory}.On("default").Payload("00", 0)},
		{name: "store for nobody", as: callers(), publish: "tb.payload.00.0"},
	}
	for i := range table {
		table[i].refused = byServer
	}
	d.try(table)
	d.finish()
}

// Nobody changes streams and consumers, or reads what they hold behind the back of their subjects.
func TestStreams(t *testing.T) {
	t.Parallel()
	d := deploy(t)
	var table []row
	for _, s := range []string{
		"KV_calls", "KV_pools", "KV_control", "KV_policy", "KV_runs", "AUDIT", "SURPLUS", "KEPT", "DENIED", "CHUNKS", "DEAD",
		"PAYLOADS",
	} {
		for _, op := range []string{
			"STREAM.CREATE", "STREAM.UPDATE", "STREAM.DELETE", "STREAM.PURGE", "STREAM.INFO", "STREAM.MSG.GET",
			"STREAM.MSG.DELETE", "STREAM.SNAPSHOT", "STREAM.RESTORE", "STREAM.LEADER.STEPDOWN", "CONSUMER.CREATE",
			"CONSUMER.NAMES", "CONSUMER.LIST", "DIRECT.GET",
		} {
			as := everybody()
			if op == "DIRECT.GET" && (s == "AUDIT" || s == "SURPLUS" || s == "DENIED") {
				as = []string{bob, mallory, door, auditor, operator, insider, outsider} // all but who may
			}
			table = append(table, row{name: op + " of " + s, as: as, publish: "$JS.API." + op + "." + s})
		}
		table = append(table,
			row{name: "a consumer of all of " + s, as: everybody(), publish: "$JS.API.CONSUMER.CREATE." + s + ".x.>"},
			row{name: "a durable consumer of " + s, as: everybody(), publish: "$JS.API.CONSUMER.DURABLE.CREATE." + s + ".x"},
			row{name: "a direct get of all of " + s, as: everybody(), publish: "$JS.API.DIRECT.GET." + s + ".>"})
	}
	const worker = "KV_calls.exec_default_normal"
	table = append(table,
		row{name: "pull the work of others", as: append(callers(), outsider), publish: "$JS.API.CONSUMER.MSG.NEXT." + worker},
		row{name: "delete the consumer", as: everybody(), publish: "$JS.API.CONSUMER.DELETE." + worker},
		row{name: "pause the consumer", as: everybody(), publish: "$JS.API.CONSUMER.PAUSE." + worker,
			body: `{"pause_until":"2099-01-01T00:00:00Z"}`},
		row{name: "unpin the consumer", as: everybody(), publish: "$JS.API.CONSUMER.UNPIN." + worker},
		row{name: "ask for its state", as: everybody(), publish: "$JS.API.CONSUMER.INFO." + worker},
		row{name: "the account", as: everybody(), publish: "$JS.API.INFO"},
		row{name: "the names of streams", as: everybody(), publish: "$JS.API.STREAM.NAMES"},
		row{name: "flow control", as: everybody(), publish: "$JS.FC.KV_calls.exec_default_normal.x"},
		row{name: "the server's own", as: everybody(), publish: "$SYS.REQ.SERVER.PING.CONNZ"},
		row{name: "answer who somebody is", as: everybody(), publish: "$SYS.REQ.USER.AUTH"},
		row{name: "the user's own", as: everybody(), publish: "$SYS.REQ.USER.INFO"},
		row{name: "discovery of services", as: everybody(), publish: "$SRV.INFO.toolbus"},
	)
	for _, word := range []string{"+ACK", "-NAK", "+TERM", "+WPI", "+NXT", ""} {
		table = append(table, row{name: word + " of the victim's delivery", as: append(callers(), outsider),
			publish: "$JS.ACK." + worker + ".1.1.1.1.0", body: word})
	}
	for i := range table {
		table[i].refused = byServer
	}
	d.try(table)
	d.finish()
}
