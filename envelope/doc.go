// Package envelope has the wire types: the request of a call, its outcome, the chunks of a streamed result, the table
// of error codes, and the requests and responses of the service "toolbus" (subjects tb.svc.*). It does no I/O.
//
// JSON and msgpack carry the same envelope under the same field names; the content type chooses.
// [DecodeRequest] and its siblings are strict: what they accept is valid by the published schema
// (schemas/*.json, see [RequestSchema]), is I-JSON (RFC 7493) and is within the limits of
// limits.go; of what they refuse they list every broken rule with a JSON pointer. Where a schema is
// open, what is unknown here is kept in a field Extra and written on. The rules of an envelope are those of
// its schema. An envelope that looks exactly as this package writes it is read without the JSON library, and without
// the schema where its values are certainly valid; the result is the same.
//
// The requests and responses of the service are JSON, with the number of their format version (docs/compatibility.md):
// a later build may add members, and no member changes its meaning.
//
// Start reading at request.go and response.go; then taxonomy.go and table.go for the errors,
// identity.go for what makes two requests the same call, service.go for the service, and describe.go for what a client
// reads of tools.
package envelope
