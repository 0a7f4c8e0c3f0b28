package kv_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-018f16cc/toolbus/call"
	"github.com/seed-018f16cc/toolbus/kv"
)

// fill sets every field below v to a value of its own: what the coder forgets shows.
func fill(v reflect.Value, n *int) {
	*n++
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i), n)
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), n)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range v.Len() {
			fill(v.Index(i), n)
		}
	case reflect.String:
		v.SetString(strings.Repeat("é|%\r\n\x7f", *n%3) + string(rune('a'+*n%26)))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Uint64:
		v.SetUint(1<<63 + uint64(*n))
	default:
		v.SetInt(int64(-*n))
	}
}

func fullEvent() call.Event {
	var e call.Event
	n := 0
	fill(reflect.ValueOf(&e).Elem(), &n)
	e.State.Part, e.State.Seq = 0, 0 // the place is not part of what is written
	return e
}

func TestEventKeepsEveryField(t *testing.T) {
	t.Parallel()
	for name, e := range map[string]call.Event{"full": fullEvent(), "empty": {}, "typical": typicalEvent()} {
		raw := kv.EncodeEvent(e)
		if strings.ContainsAny(raw, "\r\n") || strings.TrimSpace(raw) != raw {
			t.Errorf("%s: %q is no header value", name, raw)
		}
		got, err := kv.ParseEvent(raw)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if diff := cmp.Diff(e, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestEventRefusesWhatItDoesNotWrite(t *testing.T) {
	t.Parallel()
	raw := kv.EncodeEvent(typicalEvent())
	for name, bad := range map[string]string{
		"nothing": "", "other form": "2" + raw[1:], "cut": raw[:len(raw)-1], "more": raw + "x|", "no number": strings.Replace(raw, "|1|", "|one|", 1),
		"leading zero": strings.Replace(raw, "|1|", "|01|", 1), "half an escape": strings.Replace(raw, "default", "defaul%4", 1),
		"needless escape": strings.Replace(raw, "default", "defaul%74", 1), "long list": strings.Replace(raw, "|0|1|1|", "|0|9999999999|1|", 1),
	} {
		if _, err := kv.ParseEvent(bad); err == nil {
			t.Errorf("%s: %q was read", name, bad)
		}
	}
}

func FuzzParseEvent(f *testing.F) {
	f.Add(kv.EncodeEvent(typicalEvent()))
	f.Add(kv.EncodeEvent(fullEvent()))
	f.Fuzz(func(t *testing.T, raw string) {
		e, err := kv.ParseEvent(raw)
		if err != nil {
			return
		}
		again, err := kv.ParseEvent(kv.EncodeEvent(e))
		if err != nil {
			t.Fatalf("%q: %v", raw, err)
		}
		if diff := cmp.Diff(e, again); diff != "" {
			t.Errorf("%q (-first +second):\n%s", raw, diff)
		}
	})
}

func typicalEvent() call.Event {
	hash := strings.Repeat("2d7a270c", 8)
	return call.Event{Kind: call.Decided, Attempt: 1, Nonce: "1448a8c3-f283.1", State: call.State{
		Facts: call.Facts{
			Tenant: "default", Tool: "bench.echo0", ID: "tvvkpo628dl23u4k9tut9d554b2032h7", Fn: "echo", Version: "1.0.0",
			Digest: "sha256:" + hash, Class: call.Pure, Pool: "default", Fingerprint: "sha256:" + hash, ArgsHash: hash, KeepSeconds: 86400,
		},
		Attempts: []call.Attempt{{
			N: 1, Nonce: "1448a8c3-f283.1", Admitted: 1, At: 1795187658234, Deadline: 1795187718233, Priority: "normal",
			Owner: call.Owner{
				CallID: "e1a7bd37-ad10-4d7e-b28e-2830c7fa493b", Actor: "agent://local", Reply: "_INBOX.ou0yk9I3Hv5IpC8eIQyOV1.1",
				ContentType: "application/json", Trace: "5d415971-e1b7-430a-8b5c-87d7bb21d42b",
			},
			Decision: &call.Decision{
				Nonce: "4f4c4d84-de50.2", Status: "success", Effect: "applied", By: call.ByExecutor, At: 1795187658235, Fence: 1, OutputHash: hash,
			},
		}},
	}}
}

func BenchmarkEventEncode(b *testing.B) {
	e := typicalEvent()
	b.ReportAllocs()
	for b.Loop() {
		kv.EncodeEvent(e)
	}
}

func BenchmarkEventDecode(b *testing.B) {
	raw := kv.EncodeEvent(typicalEvent())
	b.ReportAllocs()
	b.SetBytes(int64(len(raw)))
	for b.Loop() {
		if _, err := kv.ParseEvent(raw); err != nil {
			b.Fatal(err)
		}
	}
}
