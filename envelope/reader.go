package envelope

import (
	"bytes"
	"errors"
	"io"
	"math"
	"strconv"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed-018f16cc/toolbus/internal/ijson"
)

// reader reads the members of an envelope by hand. A broken rule does not stop it: it notes that
// something is odd, and the schema says later what exactly. It stops only at what is no JSON.
type reader struct {
	dec  *jsontext.Decoder
	body []byte
	err  error

	odd    bool   // something does not fit the Go type or a rule
	at     string // where, the first time
	unsure bool   // a zero that may be a missing member: only the schema can tell
}

// readJSON reads the one value of body with read. The error says that body is no JSON with unique
// names; otherwise the reader says whether what was read is fine.
func readJSON(body []byte, read func(*reader)) (*reader, error) {
	r := &reader{body: body}
	err := json.Unmarshal(body, &document{r, read})
	return r, err
}

// flag notes that the value just read, or missing here, is odd.
func (r *reader) flag() {
	if !r.odd {
		r.odd = true
		r.at = string(r.dec.StackPointer())
	}
}

// document lends the pooled decoder of json.Unmarshal to a reader.
type document struct {
	r    *reader
	read func(*reader)
}

// UnmarshalJSONFrom implements [json.UnmarshalerFrom].
func (d *document) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	d.r.dec = dec
	d.read(d.r)
	return d.r.err
}

// fail keeps the first error.
func (r *reader) fail(err error) {
	if r.err == nil && err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		r.err = err
	}
}

// value reads the next value as it stands in the body, which it shares.
func (r *reader) value() jsontext.Value {
	v, err := r.dec.ReadValue()
	if err != nil {
		r.fail(err)
		return nil
	}
	end := int(r.dec.InputOffset())
	return jsontext.Value(r.body[end-len(v) : end : end])
}

// object calls member with the name of each member; member must read its value, or return false
// for a name that is not allowed here. Names share the memory of the body.
func (r *reader) object(member func(name []byte) bool) {
	if r.err != nil {
		return
	}
	if r.dec.PeekKind() != '{' {
		r.skip()
		return
	}
	if _, err := r.dec.ReadToken(); err != nil {
		r.fail(err)
		return
	}
	for r.err == nil && r.dec.PeekKind() == '"' {
		raw := r.value()
		if r.err == nil && !member(unquoteName(raw)) {
			r.skip()
		}
	}
	if r.err == nil {
		_, err := r.dec.ReadToken()
		r.fail(err)
	}
}

// skip reads a value that has no place here.
func (r *reader) skip() {
	r.value()
	if r.err == nil {
		r.flag()
	}
}

func unquote(raw jsontext.Value) string { return string(unquoteName(raw)) }

// unquoteName is unquote without a copy where there is no escape: most names are only compared.
func unquoteName(raw jsontext.Value) []byte {
	if bytes.IndexByte(raw, '\\') < 0 {
		return raw[1 : len(raw)-1]
	}
	// The value was read as valid JSON, so it can be unquoted.
	plain, _ := jsontext.AppendUnquote(nil, raw)
	return plain
}

// text reads a string of least to most characters.
func (r *reader) text(dst *string, least, most int) {
	raw := r.value()
	if r.err != nil {
		return
	}
	if raw.Kind() != '"' {
		r.flag()
		return
	}
	*dst = unquote(raw)
	if !textWithin(*dst, least, most) {
		r.flag()
	}
}

func textWithin(s string, least, most int) bool {
	if len(s) >= 4*least && len(s) <= most {
		return true
	}
	n := utf8.RuneCountInString(s)
	return least <= n && n <= most
}

// match reads a string that ok accepts.
func match[S ~string](r *reader, dst *S, ok func(string) bool) {
	var s string
	r.text(&s, 0, math.MaxInt)
	*dst = S(s)
	if r.err == nil && !ok(s) {
		r.flag()
	}
}

// oneOf reads a string that is one of allowed.
func oneOf[S ~string](r *reader, dst *S, allowed ...S) {
	var s string
	r.text(&s, 0, math.MaxInt)
	for _, a := range allowed {
		if string(a) == s {
			*dst = a
			return
		}
	}
	r.flag()
}

// integer reads an integer from least to most. One that is written with a fraction or exponent
// is odd even where the schema allows it; decode then tries again with the canonical form.
func (r *reader) integer(dst *int64, least, most int64) {
	raw := r.value()
	if r.err != nil {
		return
	}
	n, err := strconv.ParseInt(string(raw), 10, 64)
	if raw.Kind() != '0' || err != nil || n < least || n > most {
		r.flag()
		return
	}
	*dst = n
}

func (r *reader) unsigned(dst *uint64) {
	var n int64
	r.integer(&n, 0, ijson.MaxInteger)
	*dst = uint64(n)
}

// number reads a number from least to most.
func (r *reader) number(dst *float64, least, most float64) {
	raw := r.value()
	if r.err != nil {
		return
	}
	f, err := strconv.ParseFloat(string(raw), 64)
	if raw.Kind() != '0' || err != nil || f < least || f > most {
		r.flag()
		return
	}
	*dst = f
}

func (r *reader) boolean(dst *bool) {
	raw := r.value()
	switch {
	case r.err != nil:
	case raw.Kind() == 't':
		*dst = true
	case raw.Kind() == 'f':
		*dst = false
	default:
		r.flag()
	}
}

// array calls item for each item, which it must read.
func (r *reader) array(most int, item func()) {
	if r.err != nil {
		return
	}
	if r.dec.PeekKind() != '[' {
		r.skip()
		return
	}
	if _, err := r.dec.ReadToken(); err != nil {
		r.fail(err)
		return
	}
	for n := 0; r.err == nil && r.dec.PeekKind() != ']'; n++ {
		if n == most {
			r.flag()
		}
		if n >= most {
			r.value()
			continue
		}
		item()
	}
	if r.err == nil {
		_, err := r.dec.ReadToken()
		r.fail(err)
	}
}

// texts reads an array of strings, each of at most long characters.
func (r *reader) texts(dst *[]string, most, long int) {
	*dst = []string{}
	r.array(most, func() {
		var s string
		r.text(&s, 0, long)
		*dst = append(*dst, s)
	})
}

// keep reads the member of an open object that nobody here knows.
func (r *reader) keep(extra *map[string]jsontext.Value, name []byte) {
	v := r.value()
	if r.err != nil {
		return
	}
	if *extra == nil {
		*extra = map[string]jsontext.Value{}
	}
	(*extra)[string(name)] = v
}

// raw reads a value of the kind as it stands; kind 0 means any.
func (r *reader) raw(dst *jsontext.Value, kind jsontext.Kind) {
	v := r.value()
	if r.err != nil {
		return
	}
	if kind != 0 && v.Kind() != kind {
		r.flag()
		return
	}
	*dst = v
}

// isUUID reports whether s has the form of a UUID, as the schema's format says.
func isUUID(s string) bool {
	if len(s) != 36 {
		return false
	}
	for i := range len(s) {
		switch c := s[i]; i {
		case 8, 13, 18, 23:
			if c != '-' {
				return false
			}
		default:
			if !('0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'f') {
				return false
			}
		}
	}
	return true
}
