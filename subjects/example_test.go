package subjects_test

import (
	"fmt"

	"github.com/seed-018f16cc/toolbus/subjects"
)

func ExampleToken() {
	fmt.Println(subjects.Token("mcp::github::issues.create"))
	fmt.Println(subjects.ParseToken("web_2efetch"))
	// Output:
	// mcp_3a_3agithub_3a_3aissues_2ecreate
	// web.fetch <nil>
}

func ExampleKey() {
	k := subjects.Key{Tool: "web.fetch", ID: "4reidtfrk20p8kjm8sc16d5d1utmc8fr"}
	fmt.Println(k.Filter())
	fmt.Println(k.Request(1, "1.0.0", "high", "default"))
	e, err := subjects.ParseEvent(k.Outcome(1, "e-448a8c3"))
	fmt.Println(e.Key.Tool, e.Attempt, e.Kind, e.Instance, err)
	// Output:
	// $KV.calls.web_2efetch.4reidtfrk20p8kjm8sc16d5d1utmc8fr.>
	// $KV.calls.web_2efetch.4reidtfrk20p8kjm8sc16d5d1utmc8fr.1.q.1_2e0_2e0.high.default
	// web.fetch 1 o e-448a8c3 <nil>
}

// A dispatcher checks that nobody speaks for somebody else.
func ExampleParseCall() {
	tenant, actor, tool, err := subjects.ParseCall("tb.call.acme.agent_3a_2f_2fa.web_2efetch")
	fmt.Println(tenant, actor, tool, err)
	// Output: acme agent://a web.fetch <nil>
}
