package toolbus_test

import (
	"strings"
	"testing"
	"time"

	"github.com/seed-018f16cc/toolbus"
	"github.com/seed-018f16cc/toolbus/envelope"
)

// interrupted is a program that does not end by itself, and writes a line when it gets SIGTERM.
const interrupted = `#!/bin/sh
trap 'echo "$line"; exit 0' TERM
line=LINE
read -r request
while :; do sleep 1; done
`

// The call of a side-effectful program that is ended at its deadline ends as the program says after SIGTERM: for the
// caller, in its result, in its explanation and on record.
func TestLastWord(t *testing.T) {
	for name, c := range map[string]struct {
		line   string
		code   envelope.Code // "" for a success
		effect toolbus.Effect
	}{
		"nothing was done": {`{"type":"error","error":{"code":"stopped","message":"so","effect":"none"}}`,
			envelope.CodeTimeout, toolbus.EffectNone},
		"it was done": {`{"type":"error","error":{"code":"stopped","message":"so","effect":"applied"}}`,
			envelope.CodeTimeoutUnknown, toolbus.EffectApplied},
		"an output": {`{"type":"output","output":1}`, "", ""},
		"no word":   {"", envelope.CodeTimeoutUnknown, toolbus.EffectUnknown},
	} {
		t.Run(name, func(t *testing.T) {
			program := strings.Replace(interrupted, "LINE", "'"+c.line+"'", 1)
			bus := serving(t, sourceTool(t, program, `"idempotent" `, `"side_effectful" `))
			ref, begun := "", time.Now()
			_, err := bus.Call(t.Context(), toolbus.Call{
				Tool: "search.web", Function: "query", Timeout: 2 * time.Second, Retry: once,
				OnAccepted: func(a toolbus.Accepted) { ref = a.Ref },
			})
			if took := time.Since(begun); took < time.Second {
				t.Errorf("it ended after %s", took)
			}
			_, later := bus.Result(t.Context(), toolbus.CallRef{Ref: ref})
			for where, err := range map[string]error{"caller": err, "result": later} {
				if toolbus.CodeOf(err) != c.code || err != nil && toolbus.EffectOf(err) != c.effect {
					t.Errorf("%s: %v with effect %q, want %q and %q", where, err, toolbus.EffectOf(err), c.code, c.effect)
				}
			}
			why, err := bus.Why(t.Context(), toolbus.CallRef{Ref: ref})
			if err != nil || strings.Contains(why, "unknown") != (c.effect == toolbus.EffectUnknown) {
				t.Errorf("why: %q, %v", why, err)
			}
		})
	}
}

// A program that panics has no answer. The error of its call has the panic.
func TestPanicOfProgram(t *testing.T) {
	const panics = "#!/bin/sh\nread -r request\n" +
		`printf 'panic: no disk\n\ngoroutine 1 [running]:\nmain.main()\n' >&2; exit 2` + "\n"
	bus := serving(t, sourceTool(t, panics))
	_, err := bus.Call(t.Context(), toolbus.Call{Tool: "search.web", Function: "query", Retry: once})
	if err == nil || !strings.HasSuffix(err.Error(), "; stderr of the tool: panic: no disk") {
		t.Errorf("the error is %v", err)
	}
}
