package mcp

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed-018f16cc/toolbus"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/encoding/jsonschema"
)

// What is not how the call ends is said not to be, since it may still go on.
func TestNotFinal(t *testing.T) {
	e := envelope.NewError(envelope.CodeTimeout, "").WithEffect(envelope.EffectUnknown)
	for _, final := range []bool{true, false} {
		r := envelope.Failure("c", e, envelope.Provenance{Final: final}, envelope.Metrics{})
		said, there := metaOf(r, nil)[envelope.MetaFinal]
		if there == final || there && said != false {
			t.Errorf("final is %t, and said is %v", final, said)
		}
		if words := inWords(r, toolbus.Pure); strings.Contains(words, "may still go on") == final {
			t.Errorf("final is %t: %s", final, words)
		}
	}
}

// A refusal for the time being is nothing that goes on.
func TestTurnedAway(t *testing.T) {
	e := envelope.NewError(envelope.CodeQueue, "").WithEffect(envelope.EffectNone)
	words := inWords(envelope.Failure("c", e, envelope.Provenance{}, envelope.Metrics{}), toolbus.SideEffectful)
	if strings.Contains(words, "go on") || !strings.Contains(words, "tried again after ") {
		t.Error(words)
	}
}

var (
	effects = []envelope.Effect{envelope.EffectNone, envelope.EffectApplied, envelope.EffectUnknown}
	classes = []toolbus.EffectClass{toolbus.Pure, toolbus.Idempotent, toolbus.SideEffectful}
)

// allCodes are those of the bus, those of tools of MCP servers, and one for each class that a tool may declare.
func allCodes() (all []envelope.Code) {
	for _, row := range envelope.Codes() {
		all = append(all, row.Code)
	}
	for code := range ofServers {
		all = append(all, code)
	}
	for class := range byClass {
		all = append(all, envelope.ToolErrorCode(class, "of_its_own"))
	}
	return all
}

// For each code, the text for a model has an advice, names neither keys nor commands, and states the effect truly.
func TestWordsForModels(t *testing.T) {
	for _, code := range allCodes() {
		if _, ok := byCode[code]; !ok && byClass[code.Class()].problem == "" {
			t.Errorf("%s has no words", code)
		}
		for _, effect := range effects {
			for _, class := range classes {
				for _, final := range []bool{true, false} {
					e := envelope.NewError(code, "").WithEffect(effect)
					text := inWords(envelope.Failure("c", e, envelope.Provenance{Final: final}, envelope.Metrics{}), class)
					checkWords(t, code, effect, class, text)
				}
			}
		}
	}
}

func checkWords(t *testing.T, code envelope.Code, effect envelope.Effect, class toolbus.EffectClass, text string) {
	t.Helper()
	if found := unknownWords.FindString(text); found != "" {
		t.Errorf("%s: %q in %q", code, found, text)
	}
	advice := []string{"What to do: ", "do not call again", "check before you call again", "Wait, and then check"}
	if !slices.ContainsFunc(advice, func(a string) bool { return strings.Contains(text, a) }) {
		t.Errorf("%s says nothing of what to do: %q", code, text)
	}
	if (effect == envelope.EffectNone) != strings.Contains(text, "Nothing was done.") ||
		(effect == envelope.EffectApplied) != strings.Contains(text, "was done: do not") {
		t.Errorf("%s, effect %s: %q", code, effect, text)
	}
	again := strings.Contains(text, "tried again") || strings.Contains(text, "What to do: ")
	if effect == envelope.EffectUnknown && class == toolbus.SideEffectful && again {
		t.Errorf("%s advises to repeat what may have been done: %q", code, text)
	}
	if strings.Contains(text, "same way") {
		t.Errorf("%s: %q", code, text)
	}
}

// Errors that tools of MCP servers report get words for their kind, behind their own.
func TestWordsForReports(t *testing.T) {
	for text, want := range map[string]string{
		"Error: 429 Too Many Requests":                         "called too often",
		"API rate limit exceeded for user":                     "called too often",
		"ENOENT: no such file or directory, open '/tmp/x.txt'": "does not exist",
		"Repository not found":                                 "does not exist",
		"Command failed: exit 1":                               "correct the arguments and try again if that helps.",
	} {
		for _, effect := range []envelope.Effect{envelope.EffectNone, envelope.EffectUnknown} {
			e := envelope.NewError("P-PRECOND-TOOL_ERROR", text).WithEffect(effect).WithToolCode("tool_error").
				WithToolResult(jsontext.Value(`{"content":[],"isError":true}`))
			r := envelope.Failure("c", e, envelope.Provenance{Final: true}, envelope.Metrics{})
			pure, once := inWords(r, toolbus.Pure), inWords(r, toolbus.SideEffectful)
			if strings.Contains(pure, text) || strings.Contains(pure, "not known") && effect == envelope.EffectNone {
				t.Errorf("%s: %q", text, pure)
			}
			if !strings.Contains(pure, want) && effect == envelope.EffectNone {
				t.Errorf("%s: %q, want %q", text, pure, want)
			}
			if may := "may have done a part of it before it failed: check before you repeat it."; effect ==
				envelope.EffectUnknown != strings.Contains(once, may) {
				t.Errorf("%s, effect %s: %q", text, effect, once)
			}
			if found := unknownWords.FindString(once + pure); found != "" {
				t.Errorf("%s: %q", text, found)
			}
		}
	}
	whole := envelope.NewError(envelope.CodeOutput, "").WithViolations(jsonschema.Violation{Message: "must be object"})
	r := envelope.Failure("c", whole, envelope.Provenance{Final: true}, envelope.Metrics{})
	if text := inWords(r, toolbus.Pure); !strings.Contains(text, "- the output: must be object") {
		t.Error(text)
	}
	// The code of a call that failed twice says nothing of its kind; its cause does.
	e := envelope.NewError("S-TOOL-002", "").WithCause("S-TOOL-SERVER_ERROR: ENOENT").WithToolCode("server_error").
		WithEffect(envelope.EffectNone).WithToolResult(jsontext.Value(`{"content":[],"isError":true}`))
	text := inWords(envelope.Failure("c", e, envelope.Provenance{Final: true}, envelope.Metrics{}), toolbus.Pure)
	if !strings.Contains(text, "does not exist") {
		t.Errorf("a repeated call: %q", text)
	}
}

// What an executor says of its own commands, or of keys, is not for models.
func TestWordsAreForModels(t *testing.T) {
	e := envelope.NewError(envelope.CodeUnavailable, "approve it with `toolbus tools approve x`").WithCause("the keys").
		WithFix("call again with the same key")
	text := inWords(envelope.Failure("c", e, envelope.Provenance{Final: true}, envelope.Metrics{}), toolbus.Pure)
	if want := byCode[envelope.CodeUnavailable].problem; unknownWords.MatchString(text) || !strings.HasPrefix(text, want) {
		t.Error(text)
	}
	crash := envelope.NewError(envelope.CodeToolFault, "").WithCause("exit status 1; standard error ends: token=abc")
	text = inWords(envelope.Failure("c", crash, envelope.Provenance{Final: true}, envelope.Metrics{}), toolbus.Pure)
	if strings.Contains(text, "abc") {
		t.Errorf("the standard error of a tool is told: %s", text)
	}
	declared := envelope.NewError("P-PRECOND-FULL", "the key box is full").WithToolCode("full").
		WithFix("empty the key box")
	text = inWords(envelope.Failure("c", declared, envelope.Provenance{Final: true}, envelope.Metrics{}), toolbus.Pure)
	if !strings.Contains(text, "the key box is full.") {
		t.Errorf("a tool's own words are lost: %s", text)
	}
}

// A result stands as its server sent it, with the texts in their places that JSON of the bus cannot hold.
func TestExactly(t *testing.T) {
	for in, want := range map[string]string{
		`{"content":[{"n":"12345678901234567890"}],"_meta":{"a":1,` +
			`"io.toolbus/exact":{"/content/0/n":"12345678901234567890"}}}`: "" +
			`{"content":[{"n":12345678901234567890}],"_meta":{"a":1}}`,
		`{"a/b":"\ufffd","content":[],"_meta":{"io.toolbus/exact":{"/a~1b":"\"\\ud800\""}}}`: "" +
			`{"content":[],"a/b":"\ud800","_meta":{}}`,
		`{"content":[],"x":1}`: `{"content":[],"x":1}`,
	} {
		as, ok := exactly(jsontext.Value(in))
		got, err := (&reply{server: as}).MarshalJSON()
		if !ok || err != nil || string(got) != want {
			t.Errorf("%s\nbecame %s, %v\nwant   %s", in, got, err, want)
		}
	}
	for _, in := range []string{
		`{"content":[],"_meta":{"io.toolbus/exact":{"/content/0/n":"1"}}}`,
		`{"content":[{"n":7}],"_meta":{"io.toolbus/exact":{"/content/0/n":"1"}}}`,
		`{"content":[{"n":"7"}],"_meta":{"io.toolbus/exact":{"/content/0/n":"}"}}}`,
		`{"content":[],"_meta":{"io.toolbus/exact":7}}`,
	} {
		if as, ok := exactly(jsontext.Value(in)); ok {
			t.Errorf("%s became %s", in, as)
		}
	}
}

// Members that the bus adds never hide those of a server, and a server cannot speak for the bus.
func TestReplyMeta(t *testing.T) {
	r := &reply{
		server: jsontext.Value(`{"content":[],"_meta":{"x":[1.0],"io.modelcontextprotocol/serverInfo":1,` +
			`"io.toolbus/ref":"forged"}}`),
		last: "said", isError: true, modern: true,
	}
	r.Meta = map[string]any{"io.modelcontextprotocol/serverInfo": "door", envelope.MetaCallID: "c"}
	const want = `{"resultType":"complete","content":[{"type":"text","text":"said"}],"isError":true,` +
		`"_meta":{"x":[1.0],"io.modelcontextprotocol/serverInfo":1,"io.toolbus/call_id":"c"}}`
	if got, err := json.Marshal(r); err != nil || string(got) != want {
		t.Errorf("%s, %v", got, err)
	}
}

// If structured content is not an object and is all that a server sent, clients of older protocols get it as text.
func TestReplyDropped(t *testing.T) {
	for in, want := range map[string]string{
		`{"content":[],"structuredContent":[1,2]}`:                           `{"content":[{"type":"text","text":"[1,2]"}]}`,
		`{"content":[{"type":"text","text":"a"}],"structuredContent":[1,2]}`: `{"content":[{"type":"text","text":"a"}]}`,
	} {
		if got, err := (&reply{server: jsontext.Value(in)}).MarshalJSON(); err != nil || string(got) != want {
			t.Errorf("%s became %s, %v", in, got, err)
		}
	}
}

// A model reads the fix of an error that the manifest declares, also if the server sent a result.
func TestDeclaredAdvice(t *testing.T) {
	for _, result := range []jsontext.Value{nil, jsontext.Value(`{"content":[],"isError":true}`)} {
		e := envelope.NewError("P-PRECOND-LOCKED", "locked").WithToolCode("locked").WithFix("unlock it first").
			WithEffect(envelope.EffectNone).WithToolResult(result)
		r := envelope.Failure("c", e, envelope.Provenance{Final: true}, envelope.Metrics{})
		if text := inWords(r, toolbus.SideEffectful); !strings.Contains(text, "What to do: unlock it first.") {
			t.Errorf("with the result %s: %s", result, text)
		}
	}
}
