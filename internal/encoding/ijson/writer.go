package ijson

import (
	"reflect"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// writer appends JSON to out.
type writer struct {
	out     []byte
	payload jsontext.Value // replaces the next JSON value; nil to write the value itself
	odd     bool           // out is unusable
}

func (w *writer) raw(s string) { w.out = append(w.out, s...) }

func (w *writer) object(members []member, v reflect.Value) {
	w.raw("{")
	for i := range members {
		m := &members[i]
		f := v.Field(m.field)
		if m.omitted && f.IsZero() {
			continue
		}
		name := m.name
		if w.out[len(w.out)-1] == '{' {
			name = name[1:]
		}
		w.raw(name)
		w.member(m, f)
	}
	w.raw("}")
}

func (w *writer) member(m *member, v reflect.Value) {
	switch m.kind {
	case text:
		w.text(v.String())
	case texts:
		w.texts(*v.Addr().Interface().(*[]string))
	case flag:
		w.out = strconv.AppendBool(w.out, v.Bool())
	case integer:
		w.out = strconv.AppendInt(w.out, v.Int(), 10)
	case natural:
		w.out = strconv.AppendUint(w.out, v.Uint(), 10)
	case raw:
		w.value(*v.Addr().Interface().(*jsontext.Value))
	case instant:
		w.time(*v.Addr().Interface().(*time.Time))
	case emptyMap:
		w.raw("{}")
		w.odd = w.odd || v.Len() > 0
	case object:
		w.object(m.members, v)
	case pointer:
		if w.odd = w.odd || v.IsNil(); !w.odd {
			w.object(m.members, v.Elem())
		}
	default:
		w.odd = true
	}
}

func (w *writer) text(s string) {
	var err error
	w.out, err = jsontext.AppendQuote(w.out, s)
	w.odd = w.odd || err != nil // not UTF-8
}

func (w *writer) texts(all []string) {
	w.raw("[")
	for i, s := range all {
		if i > 0 {
			w.raw(",")
		}
		w.text(s)
	}
	w.raw("]")
}

// maxValue is the largest JSON value that is written here, in bytes. A short one cannot be nested too deep for the
// library.
const maxValue = 8 << 10

func (w *writer) value(v jsontext.Value) {
	if w.payload != nil {
		w.out, w.payload = append(w.out, w.payload...), nil
		return
	}
	var err error
	w.out, err = jsontext.AppendFormat(w.out, v)
	w.odd = w.odd || err != nil || len(v) > maxValue
}

// time writes a time, which must be in UTC with a year of at most four digits.
func (w *writer) time(t time.Time) {
	w.raw(`"`)
	w.out = t.AppendFormat(w.out, time.RFC3339Nano)
	w.raw(`"`)
	w.odd = w.odd || t.Location() != time.UTC || t.Year() < 0 || t.Year() > 9999
}
