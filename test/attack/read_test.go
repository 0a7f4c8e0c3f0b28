package attack

import (
	"strings"
	"testing"
	"time"

	"github.com/seed-018f16cc/toolbus/subjects"
)

// Nobody hears what is for others.
func TestWildcards(t *testing.T) {
	t.Parallel()
	d := deploy(t)
	d.listen(everybody(), []string{
		">", "*", "tb.>", "tb.ans.>", "tb.ans.*.*.>", "tb.chunk.>", "tb.call.>", "tb.call.*.*.*", "tb.svc.>", "tb.exe.>",
		"tb.exe.heard.*.*.*", "tb.ctl.>", "tb.ctl.left", "tb.payload.>", "tb.audit.>", "tb.denied.>", "tb.dead.>",
		"_INBOX.>", "_INBOX.*.*.>", "_R_.>", "$JS.>", "$JS.API.>", "$JS.ACK.>", "$JS.EVENT.>", "$KV.>", "$KV.calls.>",
		"$KV.control.>", "$SRV.>", "$SYS.>", "$SYS.REQ.USER.AUTH", "$SYS.ACCOUNT.>",
	})
	acme, own := subjects.Token("acme")+"."+subjects.Token(alice), everybody()[:1]
	own = append(own, mallory, auditor, auditorOfAll, operator, insider, outsider) // a door hears its tenant
	d.listen(own, []string{"tb.ans." + acme + ".>", "tb.chunk." + acme + ".>", "_INBOX." + acme + ".>"})
	d.listen([]string{door}, []string{"tb.ans.evil.>", "tb.chunk.evil.>", "_INBOX." + acme + ".>"})
	d.listen(executors(), []string{subjects.InboxOf(d.real) + ".>"})
	d.finish()
}

// Nobody reads the payloads and the chunks of others: not by their subjects, and not by their places in a question
// about what is their own.
func TestReads(t *testing.T) {
	t.Parallel()
	d := deploy(t)
	key, err := subjects.ParseRef(d.victim.Ref)
	d.ok(err)
	secret := subjects.Owner{Tenant: "acme", Actor: alice}.On("default").Payload(strings.Repeat("0", 64), 0)
	_, err = d.crowd[alice].nc.Request(secret, []byte("secret"), 5*time.Second)
	d.ok(err)
	const get = "$JS.API.DIRECT.GET."
	others := []string{bob, mallory, auditor, auditorOfAll, operator, outsider}
	var table []row
	for what, subject := range map[string]string{
		"a payload": "PAYLOADS." + secret, "payloads": "PAYLOADS.tb.payload.acme.>", "all payloads": "PAYLOADS.tb.payload.>",
		"a payload by half a name": "PAYLOADS.tb.payload.*.*.00.0",
	} {
		table = append(table, row{name: "read " + what, as: others, publish: get + subject, refused: byServer})
	}
	chunk := chunkOf(key)
	table = append(table,
		row{name: "read chunks", as: append(callers(), outsider), publish: get + "CHUNKS." + chunk, refused: byServer},
		row{name: "read all chunks", as: everybody(), publish: get + "CHUNKS.tb.chunk.>", refused: byServer},
		row{name: "read the log", as: everybody(), publish: get + "KV_calls." + key.Claim(1, d.real), refused: byServer},
		row{name: "read a key", as: everybody(), publish: get + "KV_control." + subjects.SigningKey("00"), refused: byServer},
		row{name: "read of another tenant", as: []string{door}, publish: get + "PAYLOADS." +
			subjects.Owner{Tenant: "evil", Actor: mallory}.On("default").Payload("00", 0), refused: byServer})
	d.try(table)
	d.finish()
}

// chunkOf is where the first run of a call of alice's emits.
func chunkOf(key subjects.Key) string {
	return subjects.ChunkSource{
		Tenant: "acme", Actor: alice, ID: key.ID, Attempt: 1, Fence: 1, Pool: "default",
	}.Subject()
}
