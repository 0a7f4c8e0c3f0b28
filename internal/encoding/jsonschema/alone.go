package jsonschema

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Alone converts a schema, such as the result of [Schema.Whole], for libraries that do not support addresses. Each
// reference becomes a JSON pointer into the same document, and only the top may have an $id. The schema gets one
// dialect: that of its top, or 2020-12 if a part names another one. If the schema refers to another document, Alone
// returns an error. It returns a schema without references unchanged.
func Alone(raw []byte) ([]byte, error) {
	if !bytes.Contains(raw, []byte(`ef"`)) { // $ref, $dynamicRef and $recursiveRef
		return raw, nil
	}
	whole, err := Decode(raw)
	if err != nil {
		return nil, err
	}
	top, ok := whole.(map[string]any)
	if !ok {
		return raw, nil
	}
	renamed := shortNames(top)
	d := documents{at: map[string]string{}, anchors: map[string]string{}}
	d.collect(top)
	var outside error
	d.each(top, func(base, _ string, members map[string]any) {
		for _, keyword := range []string{"$ref", "$dynamicRef", "$recursiveRef"} {
			ref, ok := members[keyword].(string)
			if !ok {
				continue
			}
			pointer, found := d.resolve(base, ref)
			switch {
			case !found && outside == nil:
				outside = fmt.Errorf("it refers to %q, which is not in it", ref)
			case found:
				delete(members, keyword)
				members["$ref"] = "#" + pointer
			}
		}
	})
	if outside != nil {
		return nil, outside
	}
	mixed := false
	Walk(top, func(at string, members map[string]any) {
		if at != "" || renamed {
			delete(members, "$id")
		}
		mixed = mixed || members["$schema"] != nil && members["$schema"] != top["$schema"]
	})
	if mixed {
		Modernize(top)
	}
	return Encode(top)
}

// documents maps the documents and anchors that references name to their positions in a schema.
type documents struct {
	at      map[string]string // pointers to documents, by address
	anchors map[string]string // pointers to anchors, by address#name
}

// unnamed is the address of a schema without an $id.
const unnamed = schemaBase + "schema"

// each calls visit for each schema with the address of its document.
func (d documents) each(top any, visit func(base, at string, members map[string]any)) {
	bases := map[string]string{"": unnamed} // by pointer to the document
	Walk(top, func(at string, members map[string]any) {
		base := bases[""]
		for parent := at; parent != ""; parent = parent[:strings.LastIndexByte(parent, '/')] {
			if known, ok := bases[parent]; ok {
				base = known
				break
			}
		}
		if id, ok := members["$id"].(string); ok && !strings.HasPrefix(id, "#") {
			base, _, _ = strings.Cut(joined(base, id), "#")
			bases[at] = base
		}
		visit(base, at, members)
	})
}

// joined resolves a reference against the address base.
func joined(base, ref string) string {
	of, err := url.Parse(base)
	if err != nil {
		return ref
	}
	to, err := of.Parse(ref)
	if err != nil {
		return ref
	}
	return to.String()
}

func (d documents) collect(top any) {
	d.at[unnamed] = ""
	d.each(top, func(base, at string, members map[string]any) {
		if _, own := members["$id"]; own || at == "" {
			if _, known := d.at[base]; !known {
				d.at[base] = at
			}
		}
		for _, keyword := range []string{"$anchor", "$dynamicAnchor", "$id"} {
			name, _ := members[keyword].(string)
			if keyword == "$id" && !strings.HasPrefix(name, "#") { // draft-07 writes anchors as $id: "#name"
				continue
			}
			if name = strings.TrimPrefix(name, "#"); name != "" {
				d.anchors[base+"#"+name] = at
			}
		}
	})
}

// resolve returns the pointer to the target of a reference.
func (d documents) resolve(base, ref string) (pointer string, found bool) {
	document, fragment, _ := strings.Cut(ref, "#")
	address, _, _ := strings.Cut(joined(base, document), "#")
	if fragment != "" && fragment[0] != '/' {
		pointer, found = d.anchors[address+"#"+fragment]
		return inFragment(pointer), found
	}
	at, found := d.at[address]
	return inFragment(at) + fragment, found
}

// inFragment encodes a JSON pointer for a URL fragment, and outOfFragment decodes it.
func inFragment(pointer string) string { return (&url.URL{Fragment: pointer}).EscapedFragment() }

func outOfFragment(fragment string) string {
	if pointer, err := url.PathUnescape(fragment); err == nil {
		return pointer
	}
	return fragment
}

// plainName matches characters that some libraries do not accept in the name of a definition.
var plainName = regexp.MustCompile(`[^A-Za-z0-9._-]+`)

// shortNames gives short names to definitions that are other documents and have their address as name. It reports
// whether there were any.
func shortNames(top map[string]any) (renamed bool) {
	defs, _ := top["$defs"].(map[string]any)
	for name, def := range defs {
		if !strings.HasPrefix(name, schemaBase) {
			continue
		}
		short := plainName.ReplaceAllString(path.Base(name), "_")
		for n := 2; defs[short] != nil; n++ {
			short = plainName.ReplaceAllString(path.Base(name), "_") + "-" + strconv.Itoa(n)
		}
		delete(defs, name)
		defs[short], renamed = def, true
	}
	return renamed
}

// Sub returns the schema at a JSON pointer into a schema that [Alone] has returned. The result stands alone, too. If
// the schema there is only a reference, Sub follows it.
func Sub(raw []byte, pointer string) ([]byte, error) {
	whole, err := Decode(raw)
	if err != nil {
		return nil, err
	}
	var at any
	for hops := 0; ; hops++ {
		if at = valueAt(whole, pointer); at == nil || hops > maxHops {
			return nil, fmt.Errorf("there is no schema at %q", pointer)
		}
		members, _ := at.(map[string]any)
		ref, _ := members["$ref"].(string)
		if !strings.HasPrefix(ref, "#") || slices.ContainsFunc(slices.Collect(maps.Keys(members)), says) {
			break
		}
		pointer = outOfFragment(ref[1:])
	}
	beyond := false
	Repoint(at, func(to string) string {
		if rest, within := strings.CutPrefix(outOfFragment(to), pointer); within && (rest == "" || rest[0] == '/') {
			return "#" + inFragment(rest)
		}
		beyond = true
		return "#/$defs/" + wholeName + to
	})
	if members, ok := at.(map[string]any); ok && beyond {
		defs, _ := members["$defs"].(map[string]any)
		if defs == nil {
			defs = map[string]any{}
		}
		document, err := Decode(raw)
		if err != nil {
			return nil, err
		}
		Repoint(document, func(to string) string { return "#/$defs/" + wholeName + to })
		defs[wholeName], members["$defs"] = document, defs
	}
	return Encode(at)
}

// says reports whether a keyword next to a reference constrains values.
func says(keyword string) bool {
	return !slices.Contains([]string{"$ref", "$defs", "definitions", "$schema", "$id", "$comment"}, keyword)
}

// maxHops limits chains of references.
const maxHops = 32

// wholeName is the name of the definition that holds the document from which Sub took a schema.
const wholeName = "document"

// Placed converts a schema that stands alone for inclusion at a JSON pointer of another schema, which has dialect
// 2020-12.
func Placed(raw []byte, pointer string) ([]byte, error) {
	v, err := Decode(raw)
	if err != nil {
		return nil, err
	}
	if members, ok := v.(map[string]any); ok {
		if dialect, named := members["$schema"].(string); named && !strings.Contains(dialect, "2020-12") {
			Modernize(v)
		}
		delete(members, "$schema")
		delete(members, "$id")
	}
	Repoint(v, func(to string) string { return "#" + pointer + to })
	return Encode(v)
}

// valueAt returns the value at a JSON pointer, or nil.
func valueAt(v any, pointer string) any {
	for _, token := range strings.Split(strings.TrimPrefix(pointer, "/"), "/") {
		if pointer == "" {
			return v
		}
		token = strings.ReplaceAll(strings.ReplaceAll(token, "~1", "/"), "~0", "~")
		switch in := v.(type) {
		case map[string]any:
			v = in[token]
		case []any:
			i, err := strconv.Atoi(token)
			if err != nil || i < 0 || i >= len(in) {
				return nil
			}
			v = in[i]
		default:
			return nil
		}
	}
	return v
}

// Encode encodes a schema that [Decode] has returned, with sorted members.
func Encode(v any) ([]byte, error) {
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimSpace(out.Bytes()), err
}
