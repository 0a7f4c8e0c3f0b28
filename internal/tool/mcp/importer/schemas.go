package importer

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed-018f16cc/toolbus/internal/encoding/ijson"
	"github.com/seed-018f16cc/toolbus/internal/encoding/jsonschema"
)

// Names of the schemas of a tool in messages.
const (
	inputSchema  = "input schema"
	outputSchema = "output schema"
)

// checkedAs is the note about a format that is checked, at a place of a schema.
func checkedAs(what, at, format string) string {
	if format == jsonschema.FormatURI {
		format += ": http and https alone"
	}
	return fmt.Sprintf("%s%s is checked as format %s", what, at, format)
}

// shared holds a server's schema in two forms: the one that MCP clients get, and the one that Toolbus validates values
// with. They differ if the server uses features that Toolbus does not check.
type shared struct {
	shown   jsontext.Value // as the server wrote it, unless that does not compile without other documents
	checked jsontext.Value
	notes   []string // parts that are not checked or not shown
}

// The dialects of schemas without $schema, in the order in which compile tries them. "" is the current one.
var dialects = []string{"", "http://json-schema.org/draft-07/schema#", "http://json-schema.org/draft-04/schema#"}

// known matches the dialects that a $schema may name.
var known = regexp.MustCompile(`^https?://json-schema\.org/(draft/(2020-12|2019-09)|draft-0[467])/schema#?$`)

// spelled returns the address of a dialect with http or https as in its specification, because few libraries accept the
// other one.
func spelled(dialect string) string {
	_, rest, _ := strings.Cut(dialect, "://")
	switch {
	case !known.MatchString(dialect):
		return dialect
	case strings.Contains(rest, "/draft/"):
		return "https://" + rest
	}
	return "http://" + rest
}

// share prepares a server's schema. what names the schema in messages. The error says why the schema cannot be used.
func share(what string, raw jsontext.Value) (s shared, err error) {
	if s.shown, err = standing(raw); err != nil {
		return s, fmt.Errorf("its %s cannot be shown to clients: %w", what, err)
	}
	v, err := jsonschema.Decode(s.shown)
	if err != nil {
		return s, fmt.Errorf("its %s is not JSON: %w", what, err)
	}
	top, isObject := v.(map[string]any)
	if _, isBool := v.(bool); !isObject && !isBool {
		return s, fmt.Errorf("its %s is not a JSON Schema", what)
	}
	named, _ := top["$schema"].(string)
	if official := spelled(named); official != named {
		top["$schema"] = official
		s.shown = compact(top)
	}
	if top["$schema"] != nil && !known.MatchString(named) {
		delete(top, "$schema")
		s.notes = append(s.notes,
			fmt.Sprintf("%s: its $schema %.60q is not shown, it names no dialect of JSON Schema", what, named))
		s.shown = compact(top)
	}
	broken := s.relax(what, v)
	dialect, err := s.compile(what, v)
	if err != nil {
		return s, err
	}
	if dialect != "" || broken {
		shown, _ := jsonschema.Decode(s.shown) // decoded before without error
		members, _ := shown.(map[string]any)
		if dialect != "" {
			members["$schema"] = dialect
		}
		jsonschema.Walk(shown, func(_ string, members map[string]any) { dropPatterns(members, malformed, nil) })
		s.shown = compact(shown)
	}
	return s, nil
}

// compile finds the first dialect in which a schema compiles, and returns it.
func (s *shared) compile(what string, v any) (dialect string, err error) {
	top, _ := v.(map[string]any)
	for _, dialect := range dialects {
		if dialect != "" {
			if top == nil || top["$schema"] != nil && !slices.Contains(dialects, top["$schema"].(string)) {
				break
			}
			top["$schema"] = dialect
		}
		text := compact(v)
		if _, failed := jsonschema.Compile(what, text, nil); failed == nil {
			s.checked = text
			return dialect, nil
		} else if err == nil {
			err = fmt.Errorf("its %s does not compile: %w", what, failed)
		}
		if top == nil || dialect == "" && top["$schema"] != nil {
			break
		}
	}
	return "", err
}

// standing returns a schema that refers to no other document: unchanged if all its references are local, and otherwise
// with each reference replaced by a pointer.
func standing(raw jsontext.Value) (jsontext.Value, error) {
	v, err := jsonschema.Decode(raw)
	if err != nil {
		return nil, err
	}
	plain := true
	jsonschema.Walk(v, func(at string, members map[string]any) {
		_, addressed := members["$id"].(string)
		plain = plain && !(addressed && at != "")
		for _, keyword := range []string{"$ref", "$dynamicRef", "$recursiveRef"} {
			ref, isText := members[keyword].(string)
			plain = plain && (!isText || strings.HasPrefix(ref, "#"))
		}
	})
	alone, err := jsonschema.Alone(raw)
	if err != nil {
		return nil, err
	}
	if plain {
		return raw, nil
	}
	return alone, nil
}

// bounds are keywords with a number, and values those with arbitrary values.
var (
	bounds = []string{
		"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength", "maxLength", "minItems",
		"maxItems", "minProperties", "maxProperties", "minContains", "maxContains",
	}
	values = []string{"const", "enum"}
)

// relax removes the parts of a schema that Toolbus cannot check, and adds notes about them. broken reports whether a
// removed pattern is invalid in every regular expression syntax.
func (s *shared) relax(what string, v any) (broken bool) {
	jsonschema.Walk(v, func(at string, members map[string]any) {
		note := func(keyword, why string) {
			s.notes = append(s.notes, fmt.Sprintf("%s%s/%s is not checked: %s", what, at, keyword, why))
		}
		dropPatterns(members, unsupported, func(keyword string, bad bool) {
			broken = broken || bad
			note(keyword, "the pattern uses what RE2 does not have")
		})
		// In 2020-12 a format is an annotation, and few servers check it. Those that safety needs are checked.
		if format, ok := members["format"].(string); ok && !jsonschema.IsGuarded(format) {
			delete(members, "format")
		} else if ok && what == inputSchema {
			s.notes = append(s.notes, checkedAs(what, at, format))
		}
		for _, keyword := range slices.Sorted(maps.Keys(members)) {
			if jsonschema.Holds(keyword) || representable(members[keyword]) {
				continue
			}
			delete(members, keyword) // other keywords are annotations and need no note
			if slices.Contains(bounds, keyword) || slices.Contains(values, keyword) {
				note(keyword, "its number is beyond 2^53")
			}
		}
	})
	return broken
}

// dropPatterns removes the refused patterns from a schema. When it removes a pattern for names, it also removes
// additionalProperties and unevaluatedProperties, because they depend on the pattern.
func dropPatterns(
	members map[string]any, refused func(pattern string) bool, told func(keyword string, malformed bool),
) {
	tell := func(keyword, pattern string) {
		if told != nil {
			told(keyword, malformed(pattern))
		}
	}
	if pattern, ok := members["pattern"].(string); ok && refused(pattern) {
		tell("pattern", pattern)
		delete(members, "pattern")
	}
	names, _ := members["patternProperties"].(map[string]any)
	for pattern := range names {
		if !refused(pattern) {
			continue
		}
		tell("patternProperties", pattern)
		delete(names, pattern)
		delete(members, "additionalProperties")
		delete(members, "unevaluatedProperties")
	}
}

// unsupported reports whether Toolbus cannot compile a pattern.
func unsupported(pattern string) bool {
	_, err := regexp.Compile(pattern)
	return err != nil
}

// malformed reports whether a pattern is invalid in every syntax, for example because a bracket is not closed. It
// returns false for features that RE2 lacks: lookaround, back-references and some escapes.
func malformed(pattern string) bool {
	_, err := regexp.Compile(pattern)
	wrong := new(syntax.Error)
	return errors.As(err, &wrong) && !slices.Contains([]syntax.ErrorCode{
		syntax.ErrInvalidPerlOp, syntax.ErrInvalidEscape, syntax.ErrInvalidRepeatSize, syntax.ErrInvalidNamedCapture,
		syntax.ErrInvalidCharRange, syntax.ErrLarge,
	}, wrong.Code)
}

// representable reports whether all JSON libraries read the numbers in a value alike.
func representable(v any) bool {
	switch v := v.(type) {
	case json.Number:
		return ijson.Valid(jsontext.Value(v))
	case []any:
		return !slices.ContainsFunc(v, func(item any) bool { return !representable(item) })
	case map[string]any:
		for _, item := range v {
			if !representable(item) {
				return false
			}
		}
	}
	return true
}

// compact returns a decoded schema as JSON.
func compact(v any) jsontext.Value {
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	_ = e.Encode(v) // cannot fail: v was decoded from JSON
	return bytes.TrimSpace(out.Bytes())
}

// object returns the schema of arguments in the form for clients. Arguments in MCP are objects, so it adds type: object
// if the schema has no type.
func object(shown jsontext.Value) (jsontext.Value, error) {
	v, err := jsonschema.Decode(shown)
	if err != nil {
		return nil, err
	}
	members, ok := v.(map[string]any)
	if !ok {
		return jsontext.Value(`{"type":"object"}`), nil
	}
	switch kind := cmp.Or[any](members["type"], "none"); kind {
	case "object":
		return shown, nil
	case "none":
		members["type"] = "object"
		return compact(members), nil
	default:
		return nil, fmt.Errorf("its arguments are not an object but %v", kind)
	}
}
