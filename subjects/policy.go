package subjects

import (
	"strconv"
	"strings"
)

// The bucket of policies and its keys. It holds the documents of policy sets in parts, and the entry that names the
// documents in force. Only dispatchers have access to it.
const (
	PolicyBucket  = "policy"
	PolicyStream  = "KV_policy"
	PolicyAll     = "$KV.policy.>"
	PolicyEntry   = "set" // key of the entry; its history is the history of the policy
	PolicySubject = "$KV.policy." + PolicyEntry

	policyPart = "doc."
)

// PolicyPart returns the key of part n, from 0, of the document with this SHA-256 in hexadecimal.
func PolicyPart(sha256 string, n int) string { return policyPart + sha256 + "." + strconv.Itoa(n) }

// ParsePolicyPart returns the SHA-256 in a key of [PolicyPart]; ok is false for other keys.
func ParsePolicyPart(key string) (sha256 string, ok bool) {
	rest, ok := strings.CutPrefix(key, policyPart)
	sha256, _, dot := strings.Cut(rest, ".")
	return sha256, ok && dot
}
