package ijson

import (
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// reader decodes rest, the output of a writer. It sets odd at anything else, even if that is valid JSON.
type reader struct {
	rest    string
	payload jsontext.Value // replaces the next JSON value, which must be null; nil to read the value itself
	odd     bool           // the result is unusable
}

// want reads s, and sets odd if the text differs.
func (r *reader) want(s string) { r.odd = !r.has(s) || r.odd }

func (r *reader) has(s string) (found bool) {
	r.rest, found = strings.CutPrefix(r.rest, s)
	return found
}

func (r *reader) object(members []member, v reflect.Value) {
	r.want("{")
	punctuation := 1 // the first name has no comma before it
	for i := range members {
		m := &members[i]
		if !r.has(m.name[punctuation:]) {
			r.odd = r.odd || !m.omitted
			continue
		}
		punctuation = 0
		f := v.Field(m.field)
		if r.member(m, f); r.odd || m.omitted && f.IsZero() {
			r.odd = true
			return
		}
	}
	r.want("}")
}

func (r *reader) member(m *member, v reflect.Value) {
	switch m.kind {
	case text:
		v.SetString(r.text())
	case texts:
		*v.Addr().Interface().(*[]string) = r.texts()
	case flag:
		yes := r.has("true")
		v.SetBool(yes)
		r.odd = r.odd || !yes && !r.has("false")
	case integer:
		n := int64(r.number())
		v.SetInt(n)
		r.odd = r.odd || v.OverflowInt(n)
	case natural:
		v.SetUint(r.number())
	case raw:
		*v.Addr().Interface().(*jsontext.Value) = r.value()
	case instant:
		r.instant(v.Addr().Interface().(*time.Time))
	case emptyMap:
		r.want("{}")
		v.Set(reflect.MakeMap(v.Type()))
	case object:
		r.object(m.members, v)
	case pointer:
		v.Set(reflect.New(v.Type().Elem()))
		r.object(m.members, v.Elem())
	default:
		r.odd = true
	}
}

// instant reads a time in UTC. [time.Time.UnmarshalText] accepts an hour of one digit and a comma before the fraction,
// which package json refuses: both are odd.
func (r *reader) instant(to *time.Time) {
	var room [len(time.RFC3339Nano)]byte
	const hour, second = len("2006-01-02T15"), len("2006-01-02T15:04:05")
	at := r.text()
	strict := len(at) > second && at[hour] == ':' && at[second] != ',' && at[len(at)-1] == 'Z'
	r.odd = !strict || to.UnmarshalText(append(room[:0], at...)) != nil || r.odd
}

func (r *reader) text() string {
	quoted := r.rest
	r.want(`"`)
	end := strings.IndexByte(r.rest, '"')
	if r.odd || end < 0 {
		r.odd = true
		return ""
	}
	if strings.IndexByte(r.rest[:end], '\\') >= 0 {
		all := []byte(quoted)
		end := StringLen(all)
		s, err := jsontext.AppendUnquote(nil, all[:end])
		r.odd, r.rest = err != nil, quoted[end:]
		return string(s)
	}
	s := r.rest[:end]
	r.rest = r.rest[end+1:]
	return s
}

func (r *reader) texts() []string {
	all := []string{}
	r.want("[")
	for !r.odd && !r.has("]") {
		if len(all) > 0 {
			r.want(",")
		}
		all = append(all, r.text())
	}
	return all
}

// number reads a non-negative integer, which must not have a leading zero.
func (r *reader) number() uint64 {
	end := 0
	for end < len(r.rest) && '0' <= r.rest[end] && r.rest[end] <= '9' {
		end++
	}
	n, err := strconv.ParseUint(r.rest[:end], 10, 63)
	r.odd = r.odd || err != nil || end > 1 && r.rest[0] == '0'
	r.rest = r.rest[end:]
	return n
}

func (r *reader) value() jsontext.Value {
	if r.payload != nil {
		r.want("null")
		v := r.payload
		r.payload = nil
		return v
	}
	all := []byte(r.rest)
	end := ValueLen(all)
	r.odd = r.odd || end == 0 || all[0] <= ' '
	r.rest = r.rest[end:]
	return all[:end:end]
}
