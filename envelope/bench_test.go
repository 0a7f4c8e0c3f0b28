package envelope

import (
	"fmt"
	"strings"
	"testing"
)

const sampleFormat = `{"call_id":"0b8f5b0e-5c1d-4f0e-9f5e-0d5a3c1b2a4d","tool_id":"search.web","tool_version":"1.x",` +
	`"fn":"query","input":%s,` +
	`"context":{"actor_id":"agent://uicp/primary","scopes":["read:web"],` +
	`"trace_id":"6f1c7b1e-8a8e-4c57-9d0c-2f4f9f0f6a11","parent_span_id":"a2fb4a1d1a96d312","locale":"en-US",` +
	`"timezone":"UTC","clock":"monotonic","env":"prod"},` +
	`"constraints":{"timeout_ms":15000,"deadline_unix_ms":1734378895123,` +
	`"idempotency_key":"sha256-9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08","memory_mb_limit":512,` +
	`"net_allowlist":["https://*.wikipedia.org"],"retry_policy":{"max_attempts":3,"base_ms":200,"cap_ms":2000,` +
	`"jitter":"full"}},` +
	`"provenance":{"agent_version":"uicp-agent@2.7.0","commit":"git:abc123","container":"sha256:agentimage..."},` +
	`"dry_run":false}`

func inputOf(size int, spaced bool) string {
	sep := `,`
	if spaced {
		sep = `, `
	}
	var b strings.Builder
	b.WriteString(`{"a":[1,2,3]` + sep + `"items":[`)
	for i := 0; b.Len() < size-60; i++ {
		if i > 0 {
			b.WriteString(sep)
		}
		fmt.Fprintf(&b, `{"id":%d%s"text":"some words that go into the index %d"}`, i, sep, i)
	}
	b.WriteString(`]` + sep + `"query":"what is the answer"}`)
	return b.String()
}

func BenchmarkDecodeFingerprint(b *testing.B) {
	for _, size := range []int{256, 64 << 10} {
		for _, spaced := range []bool{false, true} {
			body := fmt.Appendf(nil, sampleFormat, inputOf(size, spaced))
			name := fmt.Sprintf("%dB/canonical", size)
			if spaced {
				name = fmt.Sprintf("%dB/spaced", size)
			}
			b.Run(name, func(b *testing.B) {
				b.ReportAllocs()
				b.SetBytes(int64(len(body)))
				for b.Loop() {
					q, e := DecodeRequest("", body)
					if e != nil {
						b.Fatal(e.Details.Violations)
					}
					if _, err := Fingerprint(q); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

func BenchmarkHashes(b *testing.B) {
	for _, size := range []int{256, 64 << 10} {
		q := minimalRequest()
		input := []byte(inputOf(size, false))
		b.Run(fmt.Sprintf("%dB", size), func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(input)))
			for b.Loop() {
				if _, _, err := Hashes(q, input); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkCodec writes and reads what every call needs: a request as the client makes it, and its outcome. "foreign"
// is a request that another program has written.
func BenchmarkCodec(b *testing.B) {
	for _, size := range []int{256, 64 << 10} {
		q, r := minimalRequest(), minimalResponse()
		q.Input = []byte(inputOf(size, false))
		q.Context.Scopes, r.Output = []string{"*"}, q.Input
		benchCodec(b, fmt.Sprintf("request/%dB", size), q, EncodeRequest, DecodeRequest)
		benchCodec(b, fmt.Sprintf("response/%dB", size), r, EncodeResponse, DecodeResponse)
	}
	failed := retryableResponse()
	failed.Error.Details.Extra = nil
	benchCodec(b, "response/error", failed, EncodeResponse, DecodeResponse)
	body := fmt.Appendf(nil, sampleFormat, inputOf(256, false))
	b.Run("request/foreign/decode", func(b *testing.B) { benchDecode(b, body, DecodeRequest) })
}

func benchCodec[T any](
	b *testing.B, name string, v *T,
	encode func(string, *T) ([]byte, error), decode func(string, []byte) (*T, *Error),
) {
	body, err := encode(ContentJSON, v)
	if err != nil {
		b.Fatal(err)
	}
	b.Run(name+"/encode", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := encode(ContentJSON, v); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run(name+"/decode", func(b *testing.B) { benchDecode(b, body, decode) })
}

func benchDecode[T any](b *testing.B, body []byte, decode func(string, []byte) (*T, *Error)) {
	b.ReportAllocs()
	for b.Loop() {
		if _, e := decode(ContentJSON, body); e != nil {
			b.Fatal(e.Details.Violations)
		}
	}
}
