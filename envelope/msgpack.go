package envelope

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/vmihailenco/msgpack/v5"
	"github.com/vmihailenco/msgpack/v5/msgpcode"

	"github.com/seed-018f16cc/toolbus/internal/encoding/ijson"
)

// msgpackToJSON turns the one msgpack value of body into JSON. It refuses what JSON cannot say:
// bin, ext, names that are no strings, NaN and infinities, invalid UTF-8. Duplicate names and integers beyond
// 2^53-1 pass: [ijson.Scan] finds them in the JSON, and says where they are.
func msgpackToJSON(body []byte) ([]byte, error) {
	t := transcoder{in: msgpack.NewDecoder(bytes.NewReader(body)), out: make([]byte, 0, 2*len(body))}
	if err := t.value(0); err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return nil, err
	}
	if _, err := t.in.PeekCode(); !errors.Is(err, io.EOF) {
		return nil, errors.New("more than one msgpack value")
	}
	return t.out, nil
}

type transcoder struct {
	in  *msgpack.Decoder
	out []byte
}

func (t *transcoder) value(depth int) error {
	code, err := t.in.PeekCode()
	if err != nil {
		return err
	}
	switch {
	case code == msgpcode.Nil:
		t.out = append(t.out, "null"...)
		return t.in.DecodeNil()
	case code == msgpcode.False, code == msgpcode.True:
		b, err := t.in.DecodeBool()
		t.out = strconv.AppendBool(t.out, b)
		return err
	case msgpcode.IsString(code):
		return t.text()
	case code == msgpcode.Float, code == msgpcode.Double:
		return t.float()
	case msgpcode.IsFixedMap(code), code == msgpcode.Map16, code == msgpcode.Map32:
		return t.object(depth + 1)
	case msgpcode.IsFixedArray(code), code == msgpcode.Array16, code == msgpcode.Array32:
		return t.array(depth + 1)
	case msgpcode.IsBin(code), msgpcode.IsExt(code):
		return errors.New("msgpack bin and ext have no JSON form")
	}
	return t.integer(code)
}

var errTooLarge = fmt.Errorf("larger than %d bytes", MaxDocument)

func (t *transcoder) text() error {
	s, err := t.in.DecodeString()
	if err != nil {
		return err
	}
	if !utf8.ValidString(s) {
		return errors.New("a string is not valid UTF-8")
	}
	if len(t.out)+quotedLen(s) > MaxDocument {
		return errTooLarge
	}
	t.out, err = jsontext.AppendQuote(t.out, s)
	return err
}

// quotedLen returns at least the length of s as a JSON string. One byte may become six, so a
// short body can unfold into a long document.
func quotedLen(s string) int {
	n := len(s) + len(`""`)
	for i := range len(s) {
		switch c := s[i]; {
		case c < 0x20:
			n += len(`\u0000`) - 1
		case c == '"', c == '\\':
			n++
		}
	}
	return n
}

func (t *transcoder) float() error {
	f, err := t.in.DecodeFloat64()
	if err != nil {
		return err
	}
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return errors.New("NaN and infinities have no JSON form")
	}
	t.out = append(t.out, jsontext.Float(f).String()...)
	return nil
}

func (t *transcoder) integer(code byte) error {
	if code == msgpcode.Uint64 {
		n, err := t.in.DecodeUint64()
		t.out = strconv.AppendUint(t.out, n, 10)
		return err
	}
	n, err := t.in.DecodeInt64()
	t.out = strconv.AppendInt(t.out, n, 10)
	return err
}

func (t *transcoder) object(depth int) error {
	n, err := t.in.DecodeMapLen()
	if err != nil {
		return err
	}
	return t.items(n, depth, '{', '}', func() error {
		code, err := t.in.PeekCode()
		if err != nil {
			return err
		}
		if !msgpcode.IsString(code) {
			return errors.New("the name of a member is no string")
		}
		if err := t.text(); err != nil {
			return err
		}
		t.out = append(t.out, ':')
		return t.value(depth)
	})
}

func (t *transcoder) array(depth int) error {
	n, err := t.in.DecodeArrayLen()
	if err != nil {
		return err
	}
	return t.items(n, depth, '[', ']', func() error { return t.value(depth) })
}

func (t *transcoder) items(n, depth int, opening, closing byte, item func() error) error {
	if depth > ijson.MaxDepth {
		return ijson.ErrTooDeep
	}
	t.out = append(t.out, opening)
	for i := range n {
		if len(t.out) > MaxDocument {
			return errTooLarge
		}
		if i > 0 {
			t.out = append(t.out, ',')
		}
		if err := item(); err != nil {
			return err
		}
	}
	t.out = append(t.out, closing)
	return nil
}

// jsonToMsgpack turns one valid JSON value into msgpack. Numbers that are integers up to 2^53-1
// become integers, all others float64.
func jsonToMsgpack(v jsontext.Value) ([]byte, error) {
	counts, err := countItems(v)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	enc := msgpack.NewEncoder(&out)
	dec := jsontext.NewDecoder(bytes.NewBuffer(v))
	for {
		switch kind := dec.PeekKind(); kind {
		case '{', '[':
			head := enc.EncodeArrayLen
			if kind == '{' {
				head = enc.EncodeMapLen
			}
			err = head(counts[0])
			counts = counts[1:]
			fallthrough
		case '}', ']':
			if err == nil {
				_, err = dec.ReadToken()
			}
		default:
			err = encodeScalar(enc, dec)
		}
		if errors.Is(err, io.EOF) {
			return out.Bytes(), nil
		}
		if err != nil {
			return nil, err
		}
	}
}

// countItems returns how many items each object and array of v has, in the order in which they
// open: msgpack wants the number first.
func countItems(v jsontext.Value) ([]int, error) {
	var counts, open []int
	dec := jsontext.NewDecoder(bytes.NewBuffer(v))
	for {
		switch dec.PeekKind() {
		case '{', '[':
			open = append(open, len(counts))
			counts = append(counts, 0)
		case '}', ']':
			kind, n := dec.StackIndex(dec.StackDepth())
			if kind == '{' {
				n /= 2
			}
			if len(open) > 0 {
				counts[open[len(open)-1]] = int(n)
				open = open[:len(open)-1]
			}
		}
		if _, err := dec.ReadToken(); errors.Is(err, io.EOF) {
			return counts, nil
		} else if err != nil {
			return nil, err
		}
	}
}

func encodeScalar(enc *msgpack.Encoder, dec *jsontext.Decoder) error {
	raw, err := dec.ReadValue()
	if err != nil {
		return err
	}
	switch raw.Kind() {
	case '"':
		s, _ := jsontext.AppendUnquote(nil, raw) // it was read as valid JSON
		return enc.EncodeString(string(s))
	case 't', 'f':
		return enc.EncodeBool(raw.Kind() == 't')
	case '0':
		return encodeNumber(enc, raw)
	}
	return enc.EncodeNil()
}

func encodeNumber(enc *msgpack.Encoder, raw jsontext.Value) error {
	f, err := strconv.ParseFloat(string(raw), 64)
	switch {
	case err != nil:
		return err
	case f == math.Trunc(f) && math.Abs(f) <= ijson.MaxInteger:
		return enc.EncodeInt(int64(f))
	case !ijson.Fractional(raw):
		return errors.New("an integer is beyond 2^53-1")
	}
	return enc.EncodeFloat64(f)
}
