package clientconfig

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/go-json-experiment/json/jsontext"
)

// Toolbus is the name of Toolbus's entry among the servers of a client.
const Toolbus = "toolbus"

// Snippet returns a configuration with a single server: the entry that starts command with args.
func Snippet(l Location, path []string, command string, args []string) ([]byte, error) {
	return replaced(nil, path, nil, l.entry(path, command, args))
}

// entry returns the entry with which the client of a location starts a command. path is the path of the object that
// holds the servers.
func (l Location) entry(path []string, command string, args []string) any {
	type timeout struct {
		Request int `json:"request"`
	}
	wait := l.Client.timeout
	switch {
	case l.version2(path):
		return struct {
			Type    string   `json:"type"`
			Command []string `json:"command"`
			Timeout timeout  `json:"timeout"`
		}{"local", append([]string{command}, args...), timeout{wait}}
	case l.Client.Form == OpenCode, l.in == nil && len(path) == 1 && path[0] == "mcp":
		return struct {
			Type    string   `json:"type"`
			Command []string `json:"command"`
			Enabled bool     `json:"enabled"`
			Timeout int      `json:"timeout,omitempty"`
		}{"local", append([]string{command}, args...), true, wait}
	case l.Client.Form == Plain:
		return struct {
			Command string   `json:"command"`
			Args    []string `json:"args"`
			Timeout int      `json:"timeout,omitempty"`
		}{command, args, wait}
	}
	return struct {
		Type    string   `json:"type"`
		Command string   `json:"command"`
		Args    []string `json:"args"`
	}{"stdio", command, args}
}

// written returns the layout of a value.
func written(value any) layout {
	return func(indent, unit string) []byte {
		var out bytes.Buffer
		enc := json.NewEncoder(&out)
		enc.SetEscapeHTML(false)
		enc.SetIndent(indent, unit)
		if err := enc.Encode(value); err != nil {
			panic("mcpconfig: " + err.Error()) // the values are of this package's own types
		}
		return bytes.TrimRight(out.Bytes(), "\n")
	}
}

// quoted returns a text as a JSON string.
func quoted(text string) []byte { return written(text)("", "") }

// replaced returns a text in which Toolbus's entry replaces the servers in taken. If taken is empty, the entry becomes
// the first server.
func replaced(text []byte, path, taken []string, entry any) ([]byte, error) {
	text = orEmpty(text)
	o, _, _, err := walk(blanked(text), path)
	if err != nil {
		return nil, err
	}
	if _, there := o.member(Toolbus); there && !slices.Contains(taken, Toolbus) {
		return nil, fmt.Errorf("it has another server %s: give that one another name", Toolbus)
	}
	if len(taken) == 0 {
		return set(text, path, Toolbus, written(entry))
	}
	at := taken[0]
	if slices.Contains(taken, Toolbus) {
		at = Toolbus
	}
	m, there := o.member(at)
	if !there {
		return nil, fmt.Errorf("it has no server %q", at)
	}
	indent := lineIndent(text, m.from)
	text = slices.Concat(text[:m.from], quoted(Toolbus), []byte(": "),
		written(entry)(indent, unitOf(indent, len(path)+1)), text[m.end:])
	for _, name := range taken {
		if name == at {
			continue
		}
		if o, _, _, err = walk(blanked(text), path); err != nil {
			return nil, err
		}
		text = remove(text, o, name)
	}
	return text, nil
}

// restored returns the text now, which was changed after the installation, without Toolbus's entry and with the taken
// servers from the former text. again lists the taken servers that now contains again: they stay as they are in now.
func restored(former, now []byte, r record) (text []byte, again []string, err error) {
	former, now = orEmpty(former), orEmpty(now)
	path := r.Member
	had, _, hadAny, err := walk(blanked(former), path)
	if err != nil {
		return nil, nil, err
	}
	plain := blanked(now)
	has, _, hasAny, err := walk(plain, path)
	if err != nil {
		return nil, nil, err
	}
	ours, installed := has.member(Toolbus)
	installed = installed && hasAny && r.wrote(jsontext.Value(plain[ours.value:ours.end]))
	var pieces [][]byte
	for _, m := range had.members {
		if !hadAny || !slices.Contains(r.Taken, m.name) {
			continue
		}
		if _, there := has.member(m.name); hasAny && there && !(installed && m.name == Toolbus) {
			again = append(again, m.name)
			continue
		}
		pieces = append(pieces, former[m.from:m.end])
	}
	switch {
	case installed && len(has.members) == 1 && hadAny && len(pieces) == len(had.members):
		text = slices.Concat(now[:has.from], former[had.from:had.close+1], now[has.close+1:])
	case installed && len(pieces) > 0:
		text = slices.Concat(now[:ours.from], bytes.Join(pieces, between(now, ours.from)), now[ours.end:])
	case installed:
		text, err = without(now, path, has, hadAny)
	case len(pieces) > 0:
		text, err = putInto(now, path, pieces)
	default:
		text = now
	}
	return text, again, err
}

// without removes Toolbus's entry, and the object that holds the servers if the installation created it and it is
// empty.
func without(now []byte, path []string, has object, hadAny bool) ([]byte, error) {
	now = remove(now, has, Toolbus)
	has, _, _, err := walk(blanked(now), path)
	if err != nil || hadAny || len(has.members) > 0 || len(bytes.TrimSpace(now[has.inside:has.close])) > 0 {
		return now, err
	}
	outer, _, _, err := walk(blanked(now), path[:len(path)-1])
	if err != nil {
		return nil, err
	}
	return remove(now, outer, path[len(path)-1]), nil
}

// putInto inserts members at the beginning of the object at a path.
func putInto(now []byte, path []string, pieces [][]byte) ([]byte, error) {
	const place = "\x00" // not a valid name of a server
	text, err := set(now, path, place, func(string, string) []byte { return []byte("0") })
	if err != nil {
		return nil, err
	}
	o, _, _, err := walk(blanked(text), path)
	if err != nil {
		return nil, err
	}
	m, _ := o.member(place)
	return slices.Concat(text[:m.from], bytes.Join(pieces, between(text, m.from)), text[m.end:]), nil
}

// between returns the text that separates a member at an offset from the member before it.
func between(text []byte, at int) []byte {
	return append([]byte(","), spaceBefore(text, at)...)
}
