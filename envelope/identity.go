package envelope

import (
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed-018f16cc/toolbus/internal/ijson"
)

// Fingerprint returns what must not differ between two requests with one idempotency key:
// "sha256:" and the hex of SHA-256 over the canonical form of {env, input, scope}. No scope is
// the same as an empty one.
func Fingerprint(r *Request) (string, error) {
	input, err := ijson.Canonical(r.Input)
	if err != nil {
		return "", fmt.Errorf("input: %w", err)
	}
	return fingerprintOf(r, input)
}

// Hashes returns the [Fingerprint] that r has with input, which may lie beside the request, and
// the [ArgumentsHash] of input, which is known to be I-JSON: it was part of a decoded envelope, or
// has passed [ijson.Check].
func Hashes(r *Request, input jsontext.Value) (fingerprint, arguments string, err error) {
	if input, err = ijson.Canonical(input); err != nil {
		return "", "", fmt.Errorf("input: %w", err)
	}
	if fingerprint, err = fingerprintOf(r, input); err != nil {
		return "", "", err
	}
	sum := sha256.Sum256(input)
	return fingerprint, hex.EncodeToString(sum[:]), nil
}

// HashesOfPayload is [Hashes] for an input out of the payload store, of which ref says the SHA-256. One that is in
// canonical form is hashed only once more, and of another one that form is never held in memory.
func HashesOfPayload(
	r *Request, ref PayloadRef, input jsontext.Value, canonical bool,
) (fingerprint, arguments string, err error) {
	if canonical {
		fingerprint, err = fingerprintOf(r, input)
		return fingerprint, ref.SHA256, err
	}
	sum := sha256.New()
	fingerprint, err = hashAround(r, func(h io.Writer) error {
		return ijson.WriteCanonical(io.MultiWriter(h, sum), input)
	})
	return fingerprint, hex.EncodeToString(sum.Sum(nil)), err
}

// fingerprintOf is the fingerprint of r with an input in canonical form.
func fingerprintOf(r *Request, input jsontext.Value) (string, error) {
	return hashAround(r, func(h io.Writer) error {
		_, err := h.Write(input)
		return err
	})
}

// hashAround is the fingerprint of r with what input writes.
func hashAround(r *Request, input func(io.Writer) error) (string, error) {
	scope, err := canonicalStrings(r.Context.Scope)
	if err != nil {
		return "", fmt.Errorf("scope: %w", err)
	}
	env, err := jsontext.AppendQuote(nil, r.Context.Env)
	if err != nil {
		return "", fmt.Errorf("env: %w", err)
	}
	h := sha256.New()
	for _, part := range [...][]byte{[]byte(`{"env":`), env, []byte(`,"input":`)} {
		h.Write(part)
	}
	if err := input(h); err != nil {
		return "", fmt.Errorf("input: %w", err)
	}
	for _, part := range [...][]byte{[]byte(`,"scope":`), scope, []byte(`}`)} {
		h.Write(part)
	}
	return "sha256:" + hex.EncodeToString(h.Sum(nil)), nil
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
	sum := sha256.Sum256(input)
	return hex.EncodeToString(sum[:])
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
	var b []byte
	for _, part := range [...]string{tenant, string(scope), value, r.ToolID, r.Fn, dry, r.Constraints.IdempotencyKey} {
		b = binary.BigEndian.AppendUint32(b, uint32(len(part)))
		b = append(b, part...)
	}
	sum := sha256.Sum256(b)
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
