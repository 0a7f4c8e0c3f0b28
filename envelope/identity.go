package envelope

import (
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed-018f16cc/toolbus/internal/encoding/ijson"
)

// ByArguments begins a fingerprint as it is made now. One as it was before begins with "sha256:".
const ByArguments = "args1:"

// IsFormer reports whether a fingerprint is of the former kind, see [FormerFingerprint].
func IsFormer(fingerprint string) bool { return !strings.HasPrefix(fingerprint, ByArguments) }

// Fingerprint returns what must not differ between two requests with one idempotency key: [ByArguments] and
// the hex of SHA-256 over the [ArgumentsHash], env and the canonical form of scope, each behind its length as
// 32 bits. No scope is the same as an empty one. So the input, which may be large, is hashed once for both.
func Fingerprint(r *Request) (string, error) {
	fingerprint, _, err := Hashes(r, r.Input)
	return fingerprint, err
}

// Hashes returns the [Fingerprint] that r has with input, which may lie beside the request, and
// the [ArgumentsHash] of input, which is known to be I-JSON: it was part of a decoded envelope, or
// has passed [ijson.Check].
func Hashes(r *Request, input jsontext.Value) (fingerprint, arguments string, err error) {
	if input, err = ijson.Canonical(input); err != nil {
		return "", "", fmt.Errorf("input: %w", err)
	}
	sum := sha256.Sum256(input)
	arguments = inHex("", sum)
	fingerprint, err = fingerprintOf(r, arguments)
	return fingerprint, arguments, err
}

// HashesOfPayload is [Hashes] for an input out of the payload store, of which ref says the SHA-256. One that is in
// canonical form is not hashed again, and of another one that form is never held in memory.
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

// fingerprintOf is the fingerprint of r with the input that has this arguments hash.
func fingerprintOf(r *Request, arguments string) (string, error) {
	scope, err := canonicalStrings(r.Context.Scope)
	if err != nil {
		return "", fmt.Errorf("scope: %w", err)
	}
	if !utf8.ValidString(r.Context.Env) {
		return "", errors.New("env: not valid UTF-8")
	}
	sum := hashParts(arguments, r.Context.Env, string(scope))
	return inHex(ByArguments, sum), nil
}

// FormerFingerprint returns the fingerprint that builds of the former form of events give to r with input: "sha256:"
// and the hex of SHA-256 over the canonical form of {env, input, scope}. Only logs that they have opened have it.
func FormerFingerprint(r *Request, input jsontext.Value) (string, error) {
	scope, err := canonicalStrings(r.Context.Scope)
	if err != nil {
		return "", fmt.Errorf("scope: %w", err)
	}
	env, err := jsontext.AppendQuote(nil, r.Context.Env)
	if err != nil {
		return "", fmt.Errorf("env: %w", err)
	}
	if !ijson.Valid(input) {
		return "", errors.New("input: it is no I-JSON")
	}
	h := sha256.New()
	fmt.Fprintf(h, `{"env":%s,"input":`, env)
	if err := ijson.WriteCanonical(h, input); err != nil {
		return "", fmt.Errorf("input: %w", err)
	}
	fmt.Fprintf(h, `,"scope":%s}`, scope)
	return "sha256:" + hex.EncodeToString(h.Sum(nil)), nil
}

// hashParts is SHA-256 over parts, each behind its length, so that none can be taken for a piece of another.
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

// ArgumentsHash returns the SHA-256 of the canonical input in hex, as audit records hold it. An
// input that is no I-JSON is hashed as it stands: it was refused, and its record still needs one.
func ArgumentsHash(input jsontext.Value) string {
	if c, err := ijson.Canonical(input); err == nil {
		input = c
	}
	return inHex("", sha256.Sum256(input))
}

// inHex returns a sum in hex behind a prefix of at most 32 bytes.
func inHex(prefix string, sum [sha256.Size]byte) string {
	var room [32 + 2*sha256.Size]byte
	return string(hex.AppendEncode(append(room[:0], prefix...), sum[:]))
}

// lowerHex32 is base32 with the extended hex alphabet in lower case: safe in subjects, file names
// and for people who read it out.
var lowerHex32 = base32.NewEncoding("0123456789abcdefghijklmnopqrstuv").WithPadding(base32.NoPadding)

// CallKeyID returns the id of the call that r asks for: all requests with one id share one log.
// It is the first 20 bytes of SHA-256 over tenant, key scope and its value, tool, function, dry
// run and key, each behind its length, as 32 characters.
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

// StableKey returns the idempotency key that an agent computes for a call: "sha256-"
// and the hex of SHA-256 over tool_id|fn|input|version_range, the input in canonical form. The
// same call made twice has the same key, in every language.
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
