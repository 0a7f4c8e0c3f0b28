package attack

import (
	"testing"

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
	own = append(own, mallory, auditor, reader, operator, insider, outsider) // a door hears its tenant
	d.listen(own, []string{"tb.ans." + acme + ".>", "tb.chunk." + acme + ".>", "_INBOX." + acme + ".>"})
	d.listen([]string{door}, []string{"tb.ans.evil.>", "tb.chunk.evil.>", "_INBOX." + acme + ".>"})
	d.listen(executors(), []string{subjects.InboxOf(d.real) + ".>"})
	d.finish()
}
