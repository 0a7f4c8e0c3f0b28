package attack

import (
	"testing"

	"github.com/seed-018f16cc/toolbus/envelope"
	clientlib "github.com/seed-018f16cc/toolbus/internal/client"
)

// L3, N7 and S19: no spelling of a raw input passes a format or a prohibited flag. The tool runs only for inputs that
// are allowed.
func TestUnsafeInputs(t *testing.T) {
	t.Parallel()
	d := deploy(t)
	c := d.operator()
	all, err := c.PolicyHistory(t.Context())
	d.ok(err)
	set, err := c.Policy(t.Context(), all[0])
	d.ok(err)
	set.Lanes = []byte("lanes: [{lane_id: default, allowed_tools: ['*'], write: true, runs: implicit, " +
		"prohibited_flags: [force, skip]}]\n")
	_, err = c.PushPolicy(t.Context(), set, all[0].Revision, "nothing is forced")
	d.ok(err)
	_, err = d.victim.client.Call(t.Context(), clientlib.Call{Tool: "open", Input: []byte(`{}`)}) // for the tap
	d.ok(err)
	var table []asked
	for want, inputs := range map[envelope.Code][]string{
		"": {`{"path":"a/b","run":["ls","-l"],"other":1}`},
		envelope.CodeUnsafe: {
			`{"path":"file:///etc/passwd"}`, `{"path":"~/x"}`, `{"path":"../x"}`, `{"path":"\uff0e\uff0e/x"}`,
			`{"path":"a\u0000b"}`, `{"path":"a\u202eb"}`, `{"path":7}`, `{"path":["a",{"b":"../x"}]}`,
			`{"run":"a\u001cb"}`, `{"run":"a\u001b[2J"}`, `{"run":{"x":"ls"}}`, `{"run":1}`, `{"run":"ls; rm x"}`,
		},
		envelope.CodeProhibited: {
			`{"force":true}`, `{"Force":true}`, `{"FORCE":0}`, `{"force":false,"Force":true}`, `{"f\u006frce":true}`,
			`{"\u017fkip":true}`, `{"s\u212aip":true}`,
		},
	} {
		for _, input := range inputs {
			table = append(table, asked{name: input, as: bob, tool: "open", input: input, want: want})
		}
	}
	d.put(d.vouch(table))
	if n := d.opened.Load(); n != 2 {
		t.Errorf("the tool ran %d times", n)
	}
	d.finish()
}
