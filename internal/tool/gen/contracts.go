package gen

import (
	"bytes"
	_ "embed" // the head of the page
	"fmt"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed-018f16cc/toolbus/internal/encoding/jsonschema"
	"github.com/seed-018f16cc/toolbus/internal/tool"
)

//go:embed contracts.md
var head string

// Contracts returns the page of contracts: the status, transport, endpoint, schemas and errors of each function.
func Contracts(r *tool.Set) ([]byte, error) {
	page := bytes.NewBufferString(head)
	for f := range functions(r) {
		m := f.tool
		endpoint := "none"
		if m.Endpoint != nil && m.Endpoint.Name() != "" {
			endpoint = "`" + m.Endpoint.Name() + "`"
		}
		fmt.Fprintf(page, "\n## %s\n- status: %s\n- transport: %s\n- endpoint: %s\n", f.path,
			noted(string(m.Status), m.Notes.Status), noted(m.Transport, m.Notes.Transport), noted(endpoint, m.Notes.Endpoint))
		fenced(page, "input_schema", shown(f.Request))
		fenced(page, "output_schema", shown(f.Response))
		errors, err := errorsOf(m)
		if err != nil {
			return nil, err
		}
		fenced(page, "errors", errors)
	}
	return page.Bytes(), nil
}

func noted(what, note string) string {
	if note == "" {
		return what
	}
	return what + " (" + note + ")"
}

func fenced(page *bytes.Buffer, name string, text []byte) {
	fence := "```"
	for bytes.Contains(text, []byte(fence)) {
		fence += "`"
	}
	fmt.Fprintf(page, "- %s:\n%sjson\n%s\n%s\n", name, fence, bytes.TrimSpace(text), fence)
}

// shown returns a schema as in its file, or with the documents that it refers to if these are other files.
func shown(s *jsonschema.Schema) []byte {
	if bytes.Equal(s.Raw(), s.Whole()) {
		return s.Raw()
	}
	text := jsontext.Value(bytes.Clone(s.Whole()))
	_ = text.Indent(jsontext.WithIndent("  ")) // cannot fail: it is JSON
	return text
}

// errorsOf lists the errors of a tool in the order of the manifest, one per line.
func errorsOf(m *tool.Manifest) ([]byte, error) {
	if len(m.ErrorNames) == 0 {
		return []byte("[]"), nil
	}
	lines := make([]string, len(m.ErrorNames))
	for i, name := range m.ErrorNames {
		text, err := json.Marshal(name)
		if err != nil {
			return nil, err
		}
		lines[i] = fmt.Sprintf(`  { "code": %s`, text)
		if status := m.Errors[name].HTTPStatus; status != 0 {
			lines[i] += fmt.Sprintf(`, "http_status": %d`, status)
		}
		lines[i] += " }"
	}
	return []byte("[\n" + strings.Join(lines, ",\n") + "\n]"), nil
}
