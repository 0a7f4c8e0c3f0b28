package tool

import (
	_ "embed" // the schema of manifests
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/encoding/jsonschema"
)

//go:embed manifest.json
var manifestSchema []byte

// Transport describes the endpoints of one transport, so that manifests can be read without its adapter.
type Transport struct {
	Name   string
	Schema string // JSON Schema of the member endpoint
	// Text returns the endpoint that a text in its place means (001), for the tool with this id. It is nil if a text means
	// nothing. The text is not blank.
	Text func(toolID, text string) map[string]any
	// Endpoint decodes raw, the endpoint of the manifest m; raw is nil if the manifest has none. Values in raw that break
	// the schema in type, enum or range have been removed. Endpoint reports every other problem at a JSON pointer into the
	// manifest. If the pointer ends in #, the problem is reported at the name of that member.
	Endpoint func(m *Manifest, raw jsontext.Value, report func(at, message, hint string)) Endpoint
}

// Endpoint is the address of one tool, such as a command. Its type belongs to the adapter of the transport.
type Endpoint interface {
	// Files returns the files in the tool's folder that the endpoint names. The digest of the tool covers them.
	Files() []File
	// Name returns the address as text for people.
	Name() string
}

// File is a file of the tool's folder that an endpoint names.
type File struct {
	Name string // relative to the folder
	At   string // JSON pointer to the value that names it
	Runs bool   // it is the program: it must exist and be executable
	// Default means that the manifest does not name the program. If it is missing, the tool is loaded all the same, and
	// its calls end with S-TOOL-UNAVAILABLE.
	Default bool
	// Argument means that the name may be something else: it names a file only if the folder has such a regular file.
	Argument bool
}

// contract is the JSON Schema of manifests with one transport, as [Published] shows it with those of all transports.
// The schema also contains the defaults of members, the texts of error messages (x-kind, x-hint, x-names), what Toolbus
// does with a field (x-state), and its aliases (x-aliases).
type contract struct {
	transport Transport
	schema    *jsonschema.Schema
	document  map[string]any
	defaults  []byte // JSON object with the default of each member that has one
	aliases   []alias
}

// contracts holds one contract per transport, and under "" the contract of manifests with a missing or unknown
// transport. It compiles a contract at the first use, because that takes milliseconds.
type contracts struct {
	transports []Transport
	made       map[string]*contract
}

func (c *contracts) of(transport string) (*contract, error) {
	t, names := Transport{Schema: "true"}, make([]any, len(c.transports))
	for i, one := range c.transports {
		if names[i] = one.Name; one.Name == transport {
			t = one
		}
	}
	if c.made[t.Name] == nil {
		made, err := newContract(t, names)
		if err != nil {
			return nil, fmt.Errorf("schema of manifests of transport %q: %w", t.Name, err)
		}
		c.made[t.Name] = made
	}
	return c.made[t.Name], nil
}

func newContract(t Transport, names []any) (*contract, error) {
	c := &contract{transport: t}
	if err := json.Unmarshal(manifestSchema, &c.document); err != nil {
		return nil, err
	}
	var endpoint any
	if err := json.Unmarshal([]byte(t.Schema), &endpoint); err != nil {
		return nil, err
	}
	properties := member(c.document, "properties")
	properties["endpoint"] = endpoint
	member(properties, "transport")["enum"] = names
	c.aliases = aliasesOf(c.document)
	raw, err := json.Marshal(c.document)
	if err != nil {
		return nil, err
	}
	if c.schema, err = jsonschema.Compile("tool.yaml", raw, nil); err != nil {
		return nil, err
	}
	c.defaults, err = json.Marshal(defaultsOf(c.document))
	return c, err
}

// defaultsOf returns the members of an object that have defaults.
func defaultsOf(object map[string]any) map[string]any {
	filled := map[string]any{}
	for name := range member(object, "properties") {
		rule := member(member(object, "properties"), name)
		if value, ok := rule["default"]; ok {
			filled[name] = value
		}
		if rule["type"] == "object" && filled[name] != nil {
			filled[name] = defaultsOf(rule)
		}
	}
	return filled
}

func member(object map[string]any, name string) map[string]any {
	m, _ := object[name].(map[string]any)
	return m
}

// declaredOnly returns the pointers of the members of a manifest that have no effect yet, sorted.
func (c *contract) declaredOnly(members map[string]any) (all []jsontext.Pointer) {
	var visit func(at jsontext.Pointer, schema, value map[string]any)
	visit = func(at jsontext.Pointer, schema, value map[string]any) {
		for _, name := range sortedKeys(value) {
			rule, below := member(member(schema, "properties"), name), at.AppendToken(name)
			if rule["x-state"] == stateDeclared {
				all = append(all, below)
				continue
			}
			visit(below, rule, member(value, name))
		}
	}
	visit("", c.document, members)
	return all
}

// stateDeclared is the state of a field that has no effect yet.
const stateDeclared = "declared only"

// rule returns the part of the schema that applies to the value at a pointer.
func (c *contract) rule(at jsontext.Pointer) map[string]any {
	rule := c.document
	for token := range at.Tokens() {
		next := member(member(rule, "properties"), token)
		for pattern := range member(rule, "patternProperties") { // one at most
			next = member(member(rule, "patternProperties"), pattern)
		}
		if next == nil {
			next = member(rule, "items")
		}
		rule = next
	}
	return rule
}

// kinds holds, for each JSON type, its name in error messages and a hint on how to write a value of it.
var kinds = map[string]struct{ name, hint string }{
	"null":    {"empty", "give it a value or leave it out"},
	"string":  {"a string", "write it in quotes"},
	"boolean": {"true or false", "no quotes, and neither yes nor no"},
	"integer": {"a whole number", "digits alone: no unit, quotes, point or exponent"},
	"number":  {"a number", "digits, with a point if needed: no unit or quotes"},
	"array":   {"a list", "write it in brackets: [a, b]"},
	"object":  {"a mapping", "write it as name: value, one to a line and indented"},
}

func kindOf(value any) string {
	switch value.(type) {
	case nil:
		return "null"
	case bool:
		return "boolean"
	case string:
		return "string"
	case []any:
		return "array"
	case map[string]any:
		return "object"
	}
	return "number"
}

// explain returns an error message and a hint for the author of a manifest. name is the name of the value as the
// author wrote it.
func (c *contract) explain(v jsonschema.Violation, value any, name string) (message, hint string) {
	at := jsontext.Pointer(v.Pointer)
	rule, about, last := c.rule(at), c.rule(at.Parent()), at.LastToken()
	switch v.Rule {
	case "additionalProperties":
		if _, named := about["patternProperties"]; named {
			return fmt.Sprintf("%q is not %s", last, about["x-kind"]), textOf(about["x-names"])
		}
		return fmt.Sprintf("unknown field %q", last), c.meantField(at)
	case "type":
		message, hint = mistyped(name, wordsOf(rule["type"]), kindOf(value))
		if form := textOf(rule["x-hint"]); rule["type"] == "string" && kindOf(value) == "number" && form != "" {
			if hint = form; !strings.HasPrefix(form, "write it as ") { // another number needs quotes
				hint = "in quotes; " + form
			}
		}
		return message, hint
	case "enum":
		return fmt.Sprintf("%q is not a value of %s", value, name), didYouMean(textOf(value), wordsOf(rule["enum"]))
	case "minimum", "maximum":
		return fmt.Sprintf("%s is %v", name, value),
			fmt.Sprintf("allowed: %s to %s", plain(rule["minimum"]), plain(rule["maximum"]))
	case "uniqueItems":
		return name + " has an item twice", "leave one of the two out"
	case "maxItems":
		return name + " has too many items", fmt.Sprintf("at most %s", plain(rule["maxItems"]))
	}
	needed := value == nil || textOf(value) == "" && slices.Contains(wordsOf(about["required"]), last)
	if kind, ok := rule["x-kind"]; ok && !needed {
		return fmt.Sprintf("%q is not %s", value, kind), textOf(rule["x-hint"])
	}
	if hint = textOf(rule["x-hint"]); hint == "" {
		hint = "add it, with a value"
	}
	return name + " is required", hint
}

// meantField suggests the field or alias that is most similar to the unknown one at a pointer, or lists all fields.
func (c *contract) meantField(at jsontext.Pointer) string {
	if best, ok := c.similar(at); ok {
		return fmt.Sprintf("did you mean %q?", best)
	}
	return didYouMean(at.LastToken(), sortedKeys(member(c.rule(at.Parent()), "properties")))
}

// similar returns the name of the field or alias that is most similar to the unknown one at a pointer.
func (c *contract) similar(at jsontext.Pointer) (best string, ok bool) {
	known := sortedKeys(member(c.rule(at.Parent()), "properties"))
	for _, a := range c.aliases {
		if a.from.Parent() == at.Parent() {
			known = append(known, a.from.LastToken())
		}
	}
	word := at.LastToken()
	best, ok = envelope.Nearest(word, known)
	if !ok || best[:1] != word[:min(1, len(word))] { // retries means retry_policy, and not metrics
		begins := func(name string) bool { return len(word) > alike && strings.HasPrefix(name, word[:alike]) }
		if i := slices.IndexFunc(known, begins); i >= 0 {
			best, ok = known[i], true
		}
	}
	return best, ok
}

// misspelt returns the field that an unknown one at a pointer seems to mean, or "".
func (c *contract) misspelt(at jsontext.Pointer) jsontext.Pointer {
	name, ok := c.similar(at)
	if !ok {
		return ""
	}
	field := at.Parent().AppendToken(name)
	for _, a := range c.aliases {
		if a.from == field {
			return a.to
		}
	}
	return field
}

// alike is the length of the beginning that makes two names of fields similar.
const alike = 4

// plain formats a number of the schema without an exponent.
func plain(v any) string {
	f, _ := v.(float64)
	return strconv.FormatFloat(f, 'f', -1, 64)
}

// mistyped explains a value of the type got where one of the types want is allowed.
func mistyped(name string, want []string, got string) (message, hint string) {
	names := make([]string, len(want))
	for i, one := range want {
		names[i] = kinds[one].name
	}
	message, hint = fmt.Sprintf("%s must be %s, not %s", name, strings.Join(names, " or "), kinds[got].name),
		kinds[want[0]].hint
	switch {
	case got == "null":
		hint = kinds[got].hint
	case len(want) == 1 && want[0] == "string" && (got == "array" || got == "object"):
		hint = "write one text, in quotes if it has brackets or a colon"
	}
	return message, hint
}

func textOf(v any) string {
	s, _ := v.(string)
	return s
}

// wordsOf returns the strings of a list, or of a single string.
func wordsOf(v any) (words []string) {
	if word := textOf(v); word != "" {
		return []string{word}
	}
	list, _ := v.([]any)
	for _, word := range list {
		words = append(words, textOf(word))
	}
	return words
}

// named formats a pointer for people, as in errors[0].code, but for that of a whole source.
func named(at jsontext.Pointer) string {
	var b strings.Builder
	for token := range at.Tokens() {
		switch {
		case strings.Trim(token, "0123456789") == "":
			fmt.Fprintf(&b, "[%s]", token)
		case b.Len() > 0:
			b.WriteString("." + token)
		default:
			b.WriteString(token)
		}
	}
	return b.String()
}
