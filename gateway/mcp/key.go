package mcp

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"
)

// Two requests with the same key are one call. Most clients send no key. Then the gateway must distinguish a request
// that a client sends again, because it lost its connection, from a new request of a model with the same arguments:
//
//   - In a session, each request has its own id. So session and id identify a request, over any connection and through
//     any gateway.
//   - A connection over stdio is such a session.
//   - Without sessions there is only the id, and most clients count from 1. Only a UUID identifies a request. Any other
//     id may come from another process of the same caller, so each request is a new call.

// asking identifies a request by its session and id.
type asking struct {
	session string // "" without sessions
	id      string // JSON-RPC id with its type as prefix; "" if unknown
}

// recognizable reports whether the gateway can recognise the request if the client sends it again.
func (a asking) recognizable() bool {
	return a.id != "" &&
		(a.session != "" || a.id[0] == idString && len(a.id) == 1+uuidLength && uuid.Validate(a.id[1:]) == nil)
}

// uuidLength is the length of a UUID in its usual form.
const uuidLength = 36

// Types of ids: "1" and 1 are different ids.
const (
	idString = 's'
	idNumber = 'n'
)

// key returns the idempotency key of a call without one: derived from the request if it is recognizable, and otherwise
// random.
func (a asking) key(d *Definition, input jsontext.Value) string {
	if !a.recognizable() {
		return "mcp-" + rand.Text()
	}
	canonical := input.Clone()
	if canonical.Canonicalize() != nil {
		canonical = input // dispatchers refuse it
	}
	return keyOf(a.session, a.id, d.Tool, d.Fn, string(canonical))
}

// keyOf returns the key that is derived from parts.
func keyOf(parts ...string) string {
	sum := sha256.New()
	for _, part := range parts {
		var size [8]byte
		binary.BigEndian.PutUint64(size[:], uint64(len(part)))
		sum.Write(size[:])
		sum.Write([]byte(part))
	}
	return "mcp-" + hex.EncodeToString(sum.Sum(nil))
}
