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

// shared is a schema of a server in two forms: one that MCP clients are shown, and one that the bus holds values
// against. They differ where the server uses what the bus does not check.
type shared struct {
	shown   jsontext.Value // as the server has it, unless that does not compile by itself
	checked jsontext.Value
	notes   []string // what is not checked, and what is not shown
}

// The dialects that servers use without a $schema, in the order in which they are tried. "" is the present one.
var dialects = []string{"", "http://json-schema.org/draft-07/schema#", "http://json-schema.org/draft-04/schema#"}

// known are the dialects that a $schema may name.
var known = regexp.MustCompile(`^https?://json-schema\.org/(draft/(2020-12|2019-09)|draft-0[467])/schema#?$`)

// spelled returns the name of a dialect as its specification has it, with http or https: few readers know the other.
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

// share prepares a schema of a server, called what. The error says why it can be neither shown nor checked.
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
		shown, _ := jsonschema.Decode(s.shown) // it was read before
		members, _ := shown.(map[string]any)
		if dialect != "" {
			members["$schema"] = dialect
		}
		jsonschema.Walk(shown, func(_ string, members map[string]any) { dropPatterns(members, malformed, nil) })
		s.shown = compact(shown)
	}
	return s, nil
}

// compile finds the dialect in which a schema compiles.
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

// standing returns a schema as it is, if it refers to nothing by address, or else with a pointer for each reference.
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

// bounds are the keywords whose values are numbers, and values those that hold any value.
var (
	bounds = []string{
		"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength", "maxLength", "minItems",
		"maxItems", "minProperties", "maxProperties", "minContains", "maxContains",
	}
	values = []string{"const", "enum"}
)

// relax takes out of a schema what the bus cannot check, and notes it. It reports whether the server has written a
// pattern that no client can read either.
func (s *shared) relax(what string, v any) (broken bool) {
	jsonschema.Walk(v, func(at string, members map[string]any) {
		note := func(keyword, why string) {
			s.notes = append(s.notes, fmt.Sprintf("%s%s/%s is not checked: %s", what, at, keyword, why))
		}
		dropPatterns(members, unsupported, func(keyword string, bad bool) {
			broken = broken || bad
			note(keyword, "the pattern uses what RE2 does not have")
		})
		for _, keyword := range slices.Sorted(maps.Keys(members)) {
			if jsonschema.Holds(keyword) || representable(members[keyword]) {
				continue
			}
			delete(members, keyword) // of others, nothing is checked
			if slices.Contains(bounds, keyword) || slices.Contains(values, keyword) {
				note(keyword, "its number is beyond 2^53")
			}
		}
	})
	return broken
}

// dropPatterns takes the patterns that are refused out of a schema. Beside a pattern for names that is not there, the
// members that are not named cannot be judged.
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

// unsupported reports whether the bus cannot use a pattern.
func unsupported(pattern string) bool {
	_, err := regexp.Compile(pattern)
	return err != nil
}

// malformed reports whether nobody can use a pattern. RE2 lacks lookaround and back-references, and some escapes; that
// is another error than a bracket that is not closed.
func malformed(pattern string) bool {
	_, err := regexp.Compile(pattern)
	wrong := new(syntax.Error)
	return errors.As(err, &wrong) && !slices.Contains([]syntax.ErrorCode{
		syntax.ErrInvalidPerlOp, syntax.ErrInvalidEscape, syntax.ErrInvalidRepeatSize, syntax.ErrInvalidNamedCapture,
		syntax.ErrInvalidCharRange, syntax.ErrLarge,
	}, wrong.Code)
}

// representable reports whether all readers of JSON read the numbers in a value alike.
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
	_ = e.Encode(v) // of what was JSON
	return bytes.TrimSpace(out.Bytes())
}

// object returns the schema of arguments, which are objects in MCP, as clients are shown it.
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
