package members

import (
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

// Writer appends to Bytes. What its methods are given first is written as it stands before the value: the name
// of the member and its punctuation, as in `,"fn":`. Those that end in If write nothing for a zero value.
type Writer struct {
	Bytes []byte
	Odd   bool // Bytes are of no use
}

// Raw writes s as it stands.
func (w *Writer) Raw(s string) { w.Bytes = append(w.Bytes, s...) }

// Text writes a string.
func (w *Writer) Text(name, v string) {
	w.Raw(name)
	var err error
	w.Bytes, err = jsontext.AppendQuote(w.Bytes, v)
	w.Odd = w.Odd || err != nil // no UTF-8
}

// TextIf writes a string.
func (w *Writer) TextIf(name, v string) {
	if v != "" {
		w.Text(name, v)
	}
}

// TextsIf writes an array of strings; an empty one is no zero value.
func (w *Writer) TextsIf(name string, v []string) {
	if v == nil {
		return
	}
	w.Raw(name)
	w.Raw("[")
	for i, s := range v {
		if i > 0 {
			w.Raw(",")
		}
		w.Text("", s)
	}
	w.Raw("]")
}

// Int writes an integer.
func (w *Writer) Int(name string, v int64) {
	w.Raw(name)
	w.Bytes = strconv.AppendInt(w.Bytes, v, 10)
}

// IntIf writes an integer.
func (w *Writer) IntIf(name string, v int64) {
	if v != 0 {
		w.Int(name, v)
	}
}

// UintIf writes an integer.
func (w *Writer) UintIf(name string, v uint64) {
	if v != 0 {
		w.Raw(name)
		w.Bytes = strconv.AppendUint(w.Bytes, v, 10)
	}
}

// Bool writes a boolean.
func (w *Writer) Bool(name string, v bool) {
	w.Raw(name)
	w.Bytes = strconv.AppendBool(w.Bytes, v)
}

// BoolIf writes a boolean.
func (w *Writer) BoolIf(name string, v bool) {
	if v {
		w.Bool(name, v)
	}
}

// maxValue bounds the values that are written by a Writer: a short one cannot be nested too deep for the library.
const maxValue = 8 << 10

// Value writes a JSON value without the space in it.
func (w *Writer) Value(name string, v jsontext.Value) {
	w.Raw(name)
	var err error
	w.Bytes, err = jsontext.AppendFormat(w.Bytes, v)
	w.Odd = w.Odd || err != nil || len(v) > maxValue
}

// ValueIf writes a JSON value; an empty one is no zero value, but odd.
func (w *Writer) ValueIf(name string, v jsontext.Value) {
	if v != nil {
		w.Value(name, v)
	}
}
