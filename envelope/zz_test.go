package envelope

import (
	"strings"
	"testing"
	"fmt"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)
func BenchmarkZZ(b *testing.B) {
	in := jsontext.Value(`{"data":"` + strings.Repeat("abcdefghij", 6553) + `"}`)
	body := fmt.Appendf(nil, sampleFormat, in)
	sch, _ := CompileSchema("x", []byte(`{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object","required":["data"],"properties":{"data":{"type":"string"}},"additionalProperties":false}`), nil)
	run := func(n string, f func()) { b.Run(n, func(b *testing.B) { b.ReportAllocs(); for b.Loop() { f() } }) }
	run("IsValid", func() { in.IsValid() })
	run("withinLimits", func() { withinLimits(in) })
	run("isCanonical", func() { isCanonical(in) })
	run("Canonical", func() { Canonical(in) })
	run("sha", func() { ArgumentsHash(in) })
	run("DecodeRequest", func() { DecodeRequest("", body) })
	run("Validate", func() { sch.Validate(in) })
	run("MarshalWrapped", func() { json.Marshal(struct{ R jsontext.Value }{body}) })
	r := &Response{CallID: "0b8f5b0e-5c1d-4f0e-9f5e-0d5a3c1b2a4d", Status: Success, Output: in, Provenance: Provenance{ToolID: "x", ToolVersion: "1.0.0"}}
	run("EncodeResponse", func() { EncodeResponse("", r) })
	enc, _ := EncodeResponse("", r)
	run("DecodeResponse", func() { DecodeResponse("", enc) })
	q, _ := DecodeRequest("", body)
	run("EncodeRequest", func() { EncodeRequest("", q) })
	run("UnmarshalRequest", func() { var q Request; json.Unmarshal(body, &q) })
	in256 := jsontext.Value(`{"data":"` + strings.Repeat("abcdefghij", 24) + `"}`)
	b256 := fmt.Appendf(nil, sampleFormat, in256)
	run("256 DecodeRequest", func() { DecodeRequest("", b256) })
	run("256 Validate", func() { sch.Validate(in256) })
	q2, _ := DecodeRequest("", b256)
	run("256 EncodeRequest", func() { EncodeRequest("", q2) })
	run("256 UnmarshalRequest", func() { var q Request; json.Unmarshal(b256, &q) })
	run("256 Hashes", func() { Hashes(q2, in256) })
	r.Output = in256
	run("256 EncodeResponse", func() { EncodeResponse("", r) })
	enc2, _ := EncodeResponse("", r)
	run("256 DecodeResponse", func() { DecodeResponse("", enc2) })
	run("256 MarshalWrapped", func() { json.Marshal(struct{ R jsontext.Value }{b256}) })
}
