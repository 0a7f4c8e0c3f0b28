package jsonschema

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"

	"github.com/seed-018f16cc/toolbus/internal/encoding/ijson"
)

// violations flattens the error tree of a failed validation. It leaves out errors that only group their causes. It
// lists a failed combinator (anyOf, oneOf) together with the errors under it.
func violations(root *jsonschema.ValidationError) []Violation {
	var found []Violation
	collect(root, root.InstanceLocation, &found)
	slices.SortFunc(found, func(a, b Violation) int {
		return cmp.Or(cmp.Compare(a.Pointer, b.Pointer), cmp.Compare(a.Rule, b.Rule), cmp.Compare(a.Message, b.Message))
	})
	found = slices.Compact(found)
	return found[:min(len(found), ijson.MaxViolations)]
}

// collect appends the violations of e and of its causes to found. parent is the location of the error that contains e.
func collect(e *jsonschema.ValidationError, parent []string, found *[]Violation) {
	at := pointer(e.InstanceLocation)
	switch k := e.ErrorKind.(type) {
	case *kind.Required:
		for _, name := range k.Missing {
			*found = append(*found, ijson.NewViolation(under(at, name), "required", "is missing"))
		}
	case *kind.AdditionalProperties:
		for _, name := range k.Properties {
			*found = append(*found, ijson.NewViolation(under(at, name), "additionalProperties", "is not allowed here"))
		}
	case *kind.PropertyNames:
		*found = append(*found, misnamed(k.Property, len(e.InstanceLocation), parent))
		return
	case *kind.Schema, *kind.Group, *kind.Reference, *kind.AllOf:
	default:
		*found = append(*found, ijson.NewViolation(at, keyword(k), describe(k)))
	}
	for _, cause := range e.Causes {
		collect(cause, e.InstanceLocation, found)
	}
}

// misnamed returns the violation of a member whose name is not allowed. Its object lies depth steps below the root.
// Version 6.0.3 of the library overwrites the location of this kind of error while it validates siblings
// (https://github.com/santhosh-tekuri/jsonschema/pull/269), so only its length and the parent's location are certain.
func misnamed(name string, depth int, parent []string) Violation {
	at := pointer(parent)
	if depth > len(parent) {
		return ijson.NewViolation(at, "propertyNames", "an object below has a name that is not allowed: "+strconv.Quote(name))
	}
	return ijson.NewViolation(under(at, name), "propertyNames", "the name is not allowed")
}

// Below prefixes the pointers of violations with the position of the value in a document. It changes found.
func Below(pointer string, found []Violation) []Violation {
	for i := range found {
		found[i].Pointer = pointer + found[i].Pointer
	}
	return found
}

func under(at, name string) string { return string(jsontext.Pointer(at).AppendToken(name)) }

func pointer(location []string) string {
	var p jsontext.Pointer
	for _, token := range location {
		p = p.AppendToken(token)
	}
	return string(p)
}

// keyword returns the schema keyword of k.
func keyword(k jsonschema.ErrorKind) string {
	if path := k.KeywordPath(); len(path) > 0 {
		return path[0]
	}
	switch k.(type) {
	case *kind.Not:
		return "not"
	case *kind.FalseSchema:
		return "false"
	}
	return "schema"
}

// describe returns what k requires. The text never contains the invalid value.
func describe(k jsonschema.ErrorKind) string {
	switch k := k.(type) {
	case *kind.Type:
		return fmt.Sprintf("must be %s, not %s", strings.Join(k.Want, " or "), k.Got)
	case *kind.Enum:
		return "must be one of " + list(k.Want)
	case *kind.Const:
		return "must be " + list([]any{k.Want})
	case *kind.Format:
		return "must be a valid " + k.Want
	case *kind.Pattern:
		return "must match " + k.Want
	case *kind.Not:
		return "must not match the schema under not"
	case *kind.FalseSchema:
		return "is not allowed here"
	}
	if s := describeSize(k); s != "" {
		return s
	}
	return describeParts(k)
}

// describeSize is describe for rules that compare a size or a number; "" for others.
func describeSize(k jsonschema.ErrorKind) string {
	switch k := k.(type) {
	case *kind.MinLength:
		return fmt.Sprintf("must have at least %d characters, has %d", k.Want, k.Got)
	case *kind.MaxLength:
		return fmt.Sprintf("must have at most %d characters, has %d", k.Want, k.Got)
	case *kind.MinItems:
		return fmt.Sprintf("must have at least %d items, has %d", k.Want, k.Got)
	case *kind.MaxItems:
		return fmt.Sprintf("must have at most %d items, has %d", k.Want, k.Got)
	case *kind.MinProperties:
		return fmt.Sprintf("must have at least %d members, has %d", k.Want, k.Got)
	case *kind.MaxProperties:
		return fmt.Sprintf("must have at most %d members, has %d", k.Want, k.Got)
	case *kind.Minimum:
		return "must be at least " + k.Want.RatString()
	case *kind.Maximum:
		return "must be at most " + k.Want.RatString()
	case *kind.ExclusiveMinimum:
		return "must be more than " + k.Want.RatString()
	case *kind.ExclusiveMaximum:
		return "must be less than " + k.Want.RatString()
	case *kind.MultipleOf:
		return "must be a multiple of " + k.Want.RatString()
	}
	return ""
}

// describeParts is describe for rules about items, members and alternatives.
func describeParts(k jsonschema.ErrorKind) string {
	switch k := k.(type) {
	case *kind.UniqueItems:
		return fmt.Sprintf("items %d and %d are equal", k.Duplicates[0], k.Duplicates[1])
	case *kind.AnyOf:
		return "matches none of the alternatives"
	case *kind.OneOf:
		if len(k.Subschemas) > 0 {
			return "matches more than one of the alternatives"
		}
		return "matches none of the alternatives"
	case *kind.Contains, *kind.MinContains:
		return "has too few items of the kind demanded"
	case *kind.MaxContains:
		return "has too many items of one kind"
	case *kind.DependentRequired:
		return fmt.Sprintf("must have %s because it has %s", strings.Join(k.Missing, ", "), k.Prop)
	}
	return "breaks the rule " + keyword(k)
}

func list(values []any) string {
	texts := make([]string, len(values))
	for i, v := range values {
		// A value of a schema was decoded from JSON, so it can be encoded.
		text, _ := json.Marshal(v, json.Deterministic(true))
		texts[i] = string(text)
	}
	return strings.Join(texts, ", ")
}
