package mcpcli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/go-json-experiment/json/jsontext"
)

// A configuration is edited as the text that it is: everything but the servers stays as somebody has written it,
// comments included, which the JSON of editors has.

// keys are the members that hold servers.
func keys() []string { return []string{"mcpServers", "servers", "context_servers"} }

// span is where a member is in a text: from its name to the end of its value.
type span struct {
	key              string
	from, value, end int
}

// errNoObject means that a file is none of an agent.
var errNoObject = errors.New("it is no JSON object")

// find returns the members of a configuration that hold servers, and where its first member would be.
func find(text []byte) (found []span, inside int, err error) {
	plain := blanked(text)
	dec := jsontext.NewDecoder(bytes.NewReader(plain))
	if token, err := dec.ReadToken(); err != nil || token.Kind() != '{' {
		return nil, 0, errNoObject
	}
	inside = int(dec.InputOffset())
	for dec.PeekKind() == '"' {
		before := int(dec.InputOffset())
		token, err := dec.ReadToken()
		if err != nil {
			return nil, 0, err
		}
		s := span{key: token.String(), from: before + bytes.IndexByte(plain[before:], '"')}
		value, err := dec.ReadValue()
		if err != nil {
			return nil, 0, err
		}
		s.end = int(dec.InputOffset())
		s.value = s.end - len(value)
		if slices.Contains(keys(), s.key) && value.Kind() == '{' {
			found = append(found, s)
		}
	}
	if _, err := dec.ReadToken(); err != nil {
		return nil, 0, err
	}
	if _, err := dec.ReadToken(); !errors.Is(err, io.EOF) {
		return nil, 0, errors.New("something follows the object")
	}
	return found, inside, nil
}

// replaced returns a configuration with one entry in the place of all its servers. key is the member for one that has
// none yet.
func replaced(text []byte, key string, entry []byte) ([]byte, error) {
	text = orEmpty(text)
	found, inside, err := find(text)
	if err != nil {
		return nil, err
	}
	if len(found) > 1 {
		return nil, fmt.Errorf("it has both %s and %s: leave one of them", found[0].key, found[1].key)
	}
	if len(found) == 1 {
		return slices.Concat(text[:found[0].value], entry, text[found[0].end:]), nil
	}
	member := slices.Concat([]byte("\n  \""+key+"\": "), entry)
	if next := bytes.TrimSpace(blanked(text)[inside:]); next[0] == '}' {
		return slices.Concat(text[:inside], member, []byte("\n}\n")), nil
	}
	return slices.Concat(text[:inside], member, []byte(","), text[inside:]), nil
}

// errChanged means that a configuration has other servers than those that were written into it.
var errChanged = errors.New("its servers were changed since")

// restored returns a configuration that was changed since with the servers of the former one, in the place of the one
// entry.
func restored(former, now []byte) ([]byte, error) {
	has, _, err := find(orEmpty(now))
	if err != nil {
		return nil, err
	}
	had, _, err := find(orEmpty(former))
	if err != nil {
		return nil, err
	}
	if len(has) != 1 || !ours(now[has[0].value:has[0].end]) || len(had) == 1 && had[0].key != has[0].key {
		return nil, errChanged
	}
	servers := []byte("{}")
	if len(had) == 1 {
		servers = former[had[0].value:had[0].end]
	}
	return slices.Concat(now[:has[0].value], servers, now[has[0].end:]), nil
}

// orEmpty is a configuration, or one without anything.
func orEmpty(text []byte) []byte {
	if len(bytes.TrimSpace(text)) == 0 {
		return []byte("{}\n")
	}
	return text
}

// ours reports whether the servers of an agent are the one entry alone.
func ours(servers []byte) bool {
	var all map[string]any
	return json.Unmarshal(blanked(servers), &all) == nil && len(all) == 1 && all[name] != nil
}

// blanked returns a text as long as it was, with spaces in the place of comments, and of commas behind the last of a
// list.
func blanked(text []byte) []byte {
	out := slices.Clone(text)
	comma := -1 // the last one, where nothing followed it but space
	for i := 0; i < len(out); i++ {
		switch c := out[i]; {
		case c == '"':
			comma = -1
			for i++; i < len(out) && out[i] != '"'; i++ {
				if out[i] == '\\' {
					i++
				}
			}
		case c == '/' && i+1 < len(out) && (out[i+1] == '/' || out[i+1] == '*'):
			i = blankComment(out, i) - 1
		case c == ',':
			comma = i
		case (c == '}' || c == ']') && comma >= 0:
			out[comma] = ' '
			comma = -1
		case !bytes.ContainsRune([]byte(" \t\r\n"), rune(c)):
			comma = -1
		}
	}
	return out
}

// blankComment makes a comment spaces, and returns where it ends.
func blankComment(out []byte, from int) (end int) {
	mark := []byte("\n")
	if out[from+1] == '*' {
		mark = []byte("*/")
	}
	end = len(out)
	if i := bytes.Index(out[from+2:], mark); i >= 0 {
		end = from + 2 + i + len(mark)
	}
	for i := from; i < end; i++ {
		if out[i] != '\n' {
			out[i] = ' '
		}
	}
	return end
}
