package mcp

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/ijson"
	"github.com/seed-018f16cc/toolbus/internal/mcpmeta"
	"github.com/seed-018f16cc/toolbus/tool"
	"github.com/seed-018f16cc/toolbus/tool/mcp/upstream"
)

// The types of results.
const (
	typeComplete = "complete"
	typeInput    = "input_required"
)

// judge makes of an answer what the call has produced, or its error. passed is how many bytes of chunks there were.
func judge(m *tool.Manifest, e Endpoint, op op, a upstream.Answer, passed int64) (statement, error) {
	switch a.Type {
	case "", typeComplete:
	case typeInput:
		return statement{}, &tool.Error{Code: errInput}
	default:
		return statement{}, broken("a result of type %.40q, which was not asked for", a.Type)
	}
	if a.IsError {
		return statement{}, fault(m, e, a)
	}
	absent := isTrue(a.Meta[mcpmeta.Absent])
	if op == opLookup && (absent || isEmpty(a)) {
		return statement{absent: true}, nil
	}
	result, err := resultOf(e, a)
	if err == nil {
		err = result.Check()
	}
	if err != nil {
		return statement{}, broken("%v", err)
	}
	if passed+int64(len(result.Output)) > m.Limits.OutputBytes {
		return statement{}, &tool.LimitError{Limit: m.Limits.OutputBytes}
	}
	return statement{result: result}, nil
}

func isTrue(v jsontext.Value) bool { return string(v) == "true" }

// isEmpty reports whether a result says nothing.
func isEmpty(a upstream.Answer) bool {
	return string(a.Structured) == "null" || a.Structured == nil && len(blocks(a)) == 0
}

func broken(format string, args ...any) error {
	return &tool.ProtocolError{Reason: fmt.Sprintf(format, args...)}
}

// block is a part of the content, as far as it is looked at.
type block struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

func blocks(a upstream.Answer) (all []block) {
	if json.Unmarshal(a.Content, &all) != nil {
		return nil
	}
	return all
}

// resultOf returns the result of a call that did not fail.
func resultOf(e Endpoint, a upstream.Answer) (r tool.Result, err error) {
	if r.Output, err = output(e, a); err != nil {
		return r, err
	}
	for name, into := range map[string]any{mcpmeta.SideEffects: &r.SideEffects, mcpmeta.Warnings: &r.Warnings} {
		if raw := a.Meta[name]; raw != nil {
			if err := json.Unmarshal(raw, into); err != nil {
				return r, fmt.Errorf("%s of its _meta is no list of what it should be", name)
			}
		}
	}
	return r, nil
}

// output is what of an answer is the output of the call.
func output(e Endpoint, a upstream.Answer) (jsontext.Value, error) {
	if e.Output == OutputWhole {
		return whole(a)
	}
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

func whole(a upstream.Answer) (jsontext.Value, error) {
	content := a.Content
	if content == nil || content.Kind() == 'n' {
		content = jsontext.Value("[]")
	}
	if content.Kind() != '[' {
		return nil, fmt.Errorf("the content of a result is no list")
	}
	return json.Marshal(struct {
		Content    jsontext.Value `json:"content"`
		Structured jsontext.Value `json:"structuredContent,omitzero"`
	}{content, a.Structured})
}

// fault is the error that a failed result says.
func fault(m *tool.Manifest, e Endpoint, a upstream.Answer) error {
	text := textOf(a)
	f := &tool.Error{Code: errTool, Message: ijson.Clip(text, envelope.MaxMessage)}
	if code, ok := codeOf(m, e, a, text); ok {
		f.Code = code
	}
	var effect string
	var after int64
	for name, into := range map[string]any{
		mcpmeta.Effect: &effect, mcpmeta.RetryAfterMS: &after, mcpmeta.Details: &f.Details,
	} {
		if raw := a.Meta[name]; raw != nil && json.Unmarshal(raw, into) != nil {
			return broken("%s of its _meta is not what it should be", name)
		}
	}
	f.Effect = envelope.Effect(effect)
	f.RetryAfter = time.Duration(min(max(after, -1), envelope.MaxRetryAfter.Milliseconds())) * time.Millisecond
	if err := f.Check(); err != nil {
		return broken("%v", err)
	}
	return f
}

// codeOf finds the name of the error: where the server says it, or by its text.
func codeOf(m *tool.Manifest, e Endpoint, a upstream.Answer, text string) (code string, ok bool) {
	if raw := a.Meta[mcpmeta.Code]; raw != nil {
		return code, json.Unmarshal(raw, &code) == nil
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

// textOf is what people read of a result.
func textOf(a upstream.Answer) string {
	var texts []string
	for _, b := range blocks(a) {
		if b.Type == "text" && b.Text != "" {
			texts = append(texts, b.Text)
		}
	}
	return strings.Join(texts, "\n")
}
