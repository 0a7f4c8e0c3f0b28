package bus

import (
	stdjson "encoding/json"
	"errors"
	"reflect"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// usual are the answers that servers give.
var usual = []string{
	`{"stream":"KV_calls","seq":1}`,
	`{"stream":"KV_calls","seq":123456789012345678}`,
	`{"stream":"KV_calls","domain":"hub","seq":12}`,
	`{"stream":"KV_calls","seq":12,"domain":"hub"}`,
	`{"stream":"KV_calls","seq":12,"duplicate": true}`,
	`{"stream":"KV_calls","domain":"hub","seq":12,"duplicate": true}`,
	`{"stream":"KV_calls","seq":12,"domain":"hub","duplicate":true}`,
	`{"error":{"code":400,"err_code":10071,"description":"wrong last sequence: 5"},"stream":"KV_calls","seq":0}`,
	`{"error":{"code":503,"err_code":10077,"description":"maximum messages exceeded"},"stream":"S","seq":0}`,
	`{"error":{"code":409,"err_code":10158,"description":"duplicate message id is in process"},"stream":"S","seq":0}`,
	`{"error":{"code":503}}`,
}

// unusual are answers for the library.
var unusual = []string{
	``, ` `, `{}`, `null`, `[]`, `x`, `{"stream":""}`, `{"stream":"","seq":1}`, `{"seq":1}`, `{"stream":"S","seq":-1}`,
	`{"stream":"S","seq":1.0}`, `{"stream":"S","seq":01}`, `{"stream":"S","seq":18446744073709551615}`,
	`{"stream":"S","seq":1}x`, `{"stream":"S","seq":1,}`, `{"stream":"S" "seq":1}`, `{,"stream":"S","seq":1}`,
	`{"stream":"S","seq":1,"val":"7"}`, `{"stream":"S\u0041","seq":1}`, `{"stream":"Sä","seq":1}`,
	`{ "stream":"S","seq":1}`, `{"stream":"S","seq":1,"duplicate":false}`, `{"stream":"S","seq":1,"batch":"b","count":2}`,
	`{"stream":null,"seq":1}`,
	`{"error":{"code":400,"err_code":70000},"stream":"S","seq":0}`, `{"error":null,"stream":"S","seq":4}`,
	`{"error":{"code":400,"err_code":10071,"description":"a \"quoted\" word"},"stream":"S","seq":0}`, `{"stream":"S"`,
}

// library reads an answer as the client library does.
func library(data []byte) ackResult {
	var r struct {
		Type  string              `json:"type"`
		Error *jetstream.APIError `json:"error"`
		*jetstream.PubAck
	}
	switch err := stdjson.Unmarshal(data, &r); {
	case err != nil:
		return ackResult{err: jetstream.ErrInvalidJSAck}
	case r.Error != nil:
		return ackResult{err: r.Error}
	case r.PubAck == nil || r.Stream == "":
		return ackResult{err: jetstream.ErrInvalidJSAck}
	}
	return ackResult{ack: PubAck{Sequence: r.Sequence, Duplicate: r.Duplicate}}
}

// alike reports whether two results are the same to whoever gets them.
func alike(a, b ackResult) bool {
	if a.err == nil || b.err == nil || errors.Is(b.err, jetstream.ErrInvalidJSAck) {
		return a.ack == b.ack && errors.Is(a.err, b.err)
	}
	x, _ := errors.AsType[*jetstream.APIError](a.err)
	y, _ := errors.AsType[*jetstream.APIError](b.err)
	return reflect.DeepEqual(x, y)
}

func TestRead(t *testing.T) {
	for _, data := range usual {
		if r, ok := fastAck([]byte(data)); !ok || !alike(r, library([]byte(data))) {
			t.Errorf("%s: %+v, plain %v", data, r, ok)
		}
	}
	for _, data := range unusual {
		if r, ok := fastAck([]byte(data)); ok {
			t.Errorf("%s is not plain: %+v", data, r)
		}
		if r := readAck(&nats.Msg{Data: []byte(data)}); !alike(r, library([]byte(data))) {
			t.Errorf("%s: %+v, the library: %+v", data, r, library([]byte(data)))
		}
	}
}

func FuzzPlain(f *testing.F) {
	for _, data := range append(usual, unusual...) {
		f.Add([]byte(data))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if r, ok := fastAck(data); ok && !alike(r, library(data)) {
			t.Errorf("%q: %+v, the library: %+v", data, r, library(data))
		}
	})
}
