package mcp

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/encoding/ijson"
	"github.com/seed-018f16cc/toolbus/internal/tool"
	"github.com/seed-018f16cc/toolbus/internal/tool/mcp/client"
)

// The types of results.
const (
	typeComplete = "complete"
	typeInput    = "input_required"
)

// judge converts an answer to the result or error of a call. passed is the number of bytes of its chunks.
func judge(m *tool.Manifest, e Endpoint, op op, a client.Answer, passed int64) (statement, error) {
	switch a.Type {
	case "", typeComplete:
	case typeInput:
		return statement{}, asked(a)
	default:
		return statement{}, broken("a result of type %.40q, which was not asked for", a.Type)
	}
	if e.Methods {
		return methodResult(m, a)
	}
	if a.IsError {
		f, warnings := fault(m, e, a)
		return statement{result: tool.Result{Warnings: warnings}}, f
	}
	absent := isTrue(a.Meta[envelope.MetaAbsent])
	if op == opLookup && (absent || isEmpty(a)) {
		return statement{absent: true}, nil
	}
	room := m.Limits.OutputBytes - passed
	if e.Output == OutputWhole {
		return statement{result: wholeOf(a, room)}, nil
	}
	result, err := resultOf(a)
	if err == nil {
		err = result.Check()
	}
	if err != nil {
		return statement{}, broken("%v", err)
	}
	if int64(len(result.Output)) > room {
		return statement{}, &tool.LimitError{Limit: m.Limits.OutputBytes}
	}
	return statement{result: result}, nil
}

func isTrue(v jsontext.Value) bool { return string(v) == "true" }

// isEmpty reports whether a result has no content.
func isEmpty(a client.Answer) bool {
	return string(a.Structured) == "null" || a.Structured == nil && len(blocks(a)) == 0
}

func broken(format string, args ...any) error {
	return &tool.ProtocolError{Reason: fmt.Sprintf(format, args...)}
}

// block holds the members of a content block that this package uses.
type block struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

func blocks(a client.Answer) (all []block) {
	if json.Unmarshal(a.Content, &all) != nil {
		return nil
	}
	return all
}

// resultOf returns the result of a successful call whose Output is OutputStructured.
func resultOf(a client.Answer) (r tool.Result, err error) {
	if r.Output, err = output(a); err != nil {
		return r, err
	}
	for name, into := range map[string]any{envelope.MetaSideEffects: &r.SideEffects, envelope.MetaWarnings: &r.Warnings} {
		if raw := a.Meta[name]; raw != nil {
			if err := json.Unmarshal(raw, into); err != nil {
				return r, fmt.Errorf("%s of its _meta is no list of what it should be", name)
			}
		}
	}
	r.Warnings = append(r.Warnings, tool.Replaced(a.Repairs, len(r.Warnings), "/structuredContent")...)
	return r, nil
}

// output returns the structured content of an answer, or the JSON in its only text block.
func output(a client.Answer) (jsontext.Value, error) {
	if a.Structured != nil {
		return a.Structured, nil
	}
	if all := blocks(a); len(all) == 1 && all[0].Type == "text" {
		if value := jsontext.Value(strings.TrimSpace(all[0].Text)); value.IsValid() {
			return value, nil
		}
	}
	return nil, fmt.Errorf("a result without structured content, whose text is no JSON either")
}

// fault returns the error of a failed result, which includes the result, and warnings about parts of it that were cut
// or replaced.
func fault(m *tool.Manifest, e Endpoint, a client.Answer) (*tool.Error, []string) {
	text := textOf(a)
	f := &tool.Error{Code: errTool, Message: ijson.Clip(text, envelope.MaxMessage)}
	if code, ok := codeOf(m, e, a, text); ok {
		f.Code = code
	}
	var warnings []string
	f.Result, warnings = failed(a)
	told(a.Meta[envelope.MetaDetails], &f.Details)
	var effect envelope.Effect
	told(a.Meta[envelope.MetaEffect], &effect)
	switch effect {
	case envelope.EffectNone, envelope.EffectApplied, envelope.EffectUnknown:
		f.Effect = effect
	}
	var after int64
	told(a.Meta[envelope.MetaRetryAfterMS], &after)
	f.RetryAfter = time.Duration(min(max(after, 0), envelope.MaxRetryAfter.Milliseconds())) * time.Millisecond
	if f.Details.Kind() != '{' {
		f.Details = nil
	}
	return f, warnings
}

// told decodes an optional member of _meta. It ignores a member of another type, because the result is valid without
// it.
func told(raw jsontext.Value, into any) { _ = json.Unmarshal(raw, into) }

// codeOf returns the name of the error: from _meta, from the structured content if the manifest declares it, or by the
// first rule that matches the text. The error codes that a Toolbus gateway sends are not valid names, and are ignored.
func codeOf(m *tool.Manifest, e Endpoint, a client.Answer, text string) (code string, ok bool) {
	told(a.Meta[envelope.MetaCode], &code)
	if (&tool.Error{Code: code}).Check() == nil {
		return code, true
	}
	var s struct {
		Code  string `json:"code"`
		Error struct {
			Code string `json:"code"`
		} `json:"error"`
	}
	if json.Unmarshal(a.Structured, &s) == nil {
		if code = cmp.Or(s.Error.Code, s.Code); m.Errors[code].Name != "" {
			return code, true
		}
	}
	for _, rule := range e.Errors {
		if rule.match.MatchString(text) {
			return rule.Code, true
		}
	}
	return "", false
}

// textOf returns the texts of a result, one per line.
func textOf(a client.Answer) string {
	var texts []string
	for _, b := range blocks(a) {
		if b.Type == "text" && b.Text != "" {
			texts = append(texts, b.Text)
		}
	}
	return strings.Join(texts, "\n")
}
