package envelope

import (
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed-018f16cc/toolbus/internal/encoding/ijson"
)

// ByArguments is the prefix of fingerprints.
const ByArguments = "args1:"

// Fingerprint returns the fingerprint of r. Two requests with the same idempotency key must have the same fingerprint.
// It is [ByArguments] and, in hex, the SHA-256 of the [ArgumentsHash], env and the canonical form of scope, each
// preceded by its length as 32 bits, big endian. A missing scope counts as an empty one. If the request answers a
// question ([MCPInput.Answers]), its state and the canonical form of its responses follow in the same way. Because the
// fingerprint uses ArgumentsHash, a large input is hashed only once for both.
func Fingerprint(r *Request) (string, error) {
	fingerprint, _, err := Hashes(r, r.Input)
	return fingerprint, err
}

// Hashes returns the [Fingerprint] of r with input in place of its own, and the [ArgumentsHash] of input. The caller
// must have checked that input is I-JSON.
func Hashes(r *Request, input jsontext.Value) (fingerprint, arguments string, err error) {
	if input, err = ijson.Canonical(input); err != nil {
		return "", "", fmt.Errorf("input: %w", err)
	}
	sum := sha256.Sum256(input)
	arguments = inHex("", sum)
	fingerprint, err = fingerprintOf(r, arguments)
	return fingerprint, arguments, err
}

// HashesOfPayload is [Hashes] for an input from the payload store with the reference ref. canonical states that input
// is in canonical form: then its SHA-256 is taken from ref. Otherwise the canonical form is hashed without holding it
// in memory.
func HashesOfPayload(
	r *Request, ref PayloadRef, input jsontext.Value, canonical bool,
) (fingerprint, arguments string, err error) {
	arguments = ref.SHA256
	if !canonical {
		sum := sha256.New()
		if err := ijson.WriteCanonical(sum, input); err != nil {
			return "", "", fmt.Errorf("input: %w", err)
		}
		arguments = hex.EncodeToString(sum.Sum(nil))
	}
	fingerprint, err = fingerprintOf(r, arguments)
	return fingerprint, arguments, err
}

// fingerprintOf returns the fingerprint of r with an input that has this arguments hash.
func fingerprintOf(r *Request, arguments string) (string, error) {
	scope, err := canonicalStrings(r.Context.Scope)
	if err != nil {
		return "", fmt.Errorf("scope: %w", err)
	}
	if !utf8.ValidString(r.Context.Env) {
		return "", errors.New("env: not valid UTF-8")
	}
	if in := r.Context.MCPInput; in != nil && in.Answers() {
		return fingerprintOfAnswer(r, arguments, string(scope))
	}
	sum := hashParts(arguments, r.Context.Env, string(scope))
	return inHex(ByArguments, sum), nil
}

// fingerprintOfAnswer is fingerprintOf for a request that answers a question. Another answer is another request.
func fingerprintOfAnswer(r *Request, arguments, scope string) (string, error) {
	answer := r.Context.MCPInput
	responses := answer.Responses
	if responses != nil {
		var err error
		if responses, err = ijson.Canonical(responses); err != nil {
			return "", fmt.Errorf("mcp_input.responses: %w", err)
		}
	}
	sum := hashParts(arguments, r.Context.Env, scope, answer.State, string(responses))
	return inHex(ByArguments, sum), nil
}

// hashParts returns the SHA-256 of the parts, each preceded by its length, so that different parts never give the same
// bytes.
func hashParts(parts ...string) [sha256.Size]byte {
	b := make([]byte, 0, 512) // in most cases on the stack
	for _, part := range parts {
		b = binary.BigEndian.AppendUint32(b, uint32(len(part)))
		b = append(b, part...)
	}
	return sha256.Sum256(b)
}

func canonicalStrings(m map[string]string) (jsontext.Value, error) {
	if len(m) == 0 {
		return jsontext.Value("{}"), nil
	}
	raw, err := json.Marshal(m)
	if err != nil {
		return nil, err
	}
	return ijson.Canonical(raw)
}

// ArgumentsHash returns the SHA-256 of the canonical form of input in hex, as audit records hold it. An input that is
// not I-JSON is hashed as it is, for the record of its refusal.
func ArgumentsHash(input jsontext.Value) string {
	if c, err := ijson.Canonical(input); err == nil {
		input = c
	}
	return inHex("", sha256.Sum256(input))
}

// inHex returns prefix, which has at most 32 bytes, and the sum in hex.
func inHex(prefix string, sum [sha256.Size]byte) string {
	var room [32 + 2*sha256.Size]byte
	return string(hex.AppendEncode(append(room[:0], prefix...), sum[:]))
}

// lowerHex32 is base32 with the extended hex alphabet in lower case, which is valid in subjects and file names.
var lowerHex32 = base32.NewEncoding("0123456789abcdefghijklmnopqrstuv").WithPadding(base32.NoPadding)

// CallKeyID returns the id of the call that r requests. All requests with the same id share one log. The id is the
// first 20 bytes of the SHA-256 of tenant, key scope, value of the scope, tool, function, dry run and key, each
// preceded by its length, as 32 characters of base32.
func CallKeyID(tenant string, r *Request) string {
	scope, value := ScopeActor, r.Context.ActorID
	switch r.Constraints.IdempotencyScope {
	case ScopeSession:
		scope, value = ScopeSession, r.Context.SessionID
	case ScopeGlobal:
		scope, value = ScopeGlobal, ""
	}
	dry := "0"
	if r.DryRun {
		dry = "1"
	}
	sum := hashParts(tenant, string(scope), value, r.ToolID, r.Fn, dry, r.Constraints.IdempotencyKey)
	return lowerHex32.EncodeToString(sum[:20])
}

// StableKey returns the stable idempotency key of a call: "sha256-" and, in hex, the SHA-256 of
// tool_id|fn|input|version_range with the input in canonical form. Programs in other languages compute the same key.
func StableKey(toolID, fn, versionRange string, input jsontext.Value) (string, error) {
	c, err := ijson.Canonical(input)
	if err != nil {
		return "", fmt.Errorf("input: %w", err)
	}
	h := sha256.New()
	for _, part := range [...][]byte{[]byte(toolID + "|" + fn + "|"), c, []byte("|" + versionRange)} {
		h.Write(part)
	}
	return "sha256-" + hex.EncodeToString(h.Sum(nil)), nil
}
