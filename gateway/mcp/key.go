package mcp

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"
)

// A key makes two askings one call. A client that names one says so itself. Most name none, and then the door has to
// tell a request that the client sends again, because it lost its connection, from one that a model makes once more:
//
//   - A session numbers its requests, and no number is used twice in it. So session and number are one asking, over
//     whichever connection and through whichever door the request comes.
//   - A connection over standard input and output is such a session, and ends with it.
//   - Without sessions nothing but the id is there, and clients count from one, some with a word before it. Only a
//     UUID, which no other process comes up with, says that a request is the same. Any other id may be of another
//     process of the same caller, so that two requests are never taken for one.

// asking is what is known of where a request comes from.
type asking struct {
	session string // that the request is of; "" where there are none
	id      string // of the request in JSON-RPC, with its type; "" where it is not known
}

// recognizable reports whether the same request can be told from another one when it comes again.
func (a asking) recognizable() bool {
	return a.id != "" &&
		(a.session != "" || a.id[0] == idString && len(a.id) == 1+uuidLength && uuid.Validate(a.id[1:]) == nil)
}

// uuidLength is that of a UUID as everybody writes it.
const uuidLength = 36

// The types of ids, which are told apart.
const (
	idString = 's'
	idNumber = 'n'
)

// key returns the idempotency key of a call that names none.
func (a asking) key(d *Definition, input jsontext.Value) string {
	if !a.recognizable() {
		return "mcp-" + rand.Text()
	}
	canonical := input.Clone()
	if canonical.Canonicalize() != nil {
		canonical = input // it is refused anyway
	}
	sum := sha256.New()
	for _, part := range []string{a.session, a.id, d.Tool, d.Fn, string(canonical)} {
		var size [8]byte
		binary.BigEndian.PutUint64(size[:], uint64(len(part)))
		sum.Write(size[:])
		sum.Write([]byte(part))
	}
	return "mcp-" + hex.EncodeToString(sum.Sum(nil))
}
