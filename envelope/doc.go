// Package envelope defines the wire types: the request of a call, its response, the chunks of a streamed result, the
// table of error codes, and the requests and responses of the service "toolbus" (subjects tb.svc.*). It does no I/O.
// Its functions are safe for concurrent use; values of its types are not.
//
// JSON and msgpack carry the same members. The content type selects the encoding. [DecodeRequest], [DecodeResponse] and
// [DecodeAccepted] are strict: they accept an envelope only if it is valid by the published schema (schemas/*.json, see
// [RequestSchema]), is I-JSON (RFC 7493) and is within the limits of limits.go. Their error lists each broken rule with
// a JSON pointer. If a schema allows unknown members, the decoder keeps them in the field Extra, and the encoder writes
// them again. There is a fast path for envelopes in the exact form that this package writes, without the JSON library
// and the schema; its results are the same.
//
// The requests and responses of the service are JSON with a format number (docs/compatibility.md). Later builds may add
// members, but never change the meaning of a member.
//
// Start reading at request.go and response.go. The errors are in taxonomy.go and table.go, the identity of calls in
// identity.go, the service in service.go, and the descriptions of tools in describe.go.
package envelope
