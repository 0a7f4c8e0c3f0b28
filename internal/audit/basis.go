package audit

import (
	"crypto/sha256"
	"encoding/hex"

	"github.com/seed-018f16cc/toolbus/envelope"
)

// Basis holds what the decision about a denied call depended on, besides the policy set, the tool and the arguments.
type Basis struct {
	Run *RunBasis `json:"run,omitzero"` // nil if the call named no run, or the run did not exist
	// Scope has the keys that the lane and the tool require, as far as the call had them. A value is the SHA-256 of that
	// in the call, in hex, or "" if that is empty.
	Scope map[string]string `json:"scope_sha256,omitzero"`
}

// RunBasis holds what a decision depended on of a run.
type RunBasis struct {
	State string `json:"state,omitzero"`
	// Policies are the digests of the set that the run was started with; zero if they are those of the record.
	Policies envelope.PolicyVersions `json:"policy_versions,omitzero"`
	Unfit    bool                    `json:"unfit,omitzero"`   // it is for another role or for other lanes
	Foreign  bool                    `json:"foreign,omitzero"` // it is of another tenant or actor; nothing else is set
}

// HashScope returns a scope with the hashes of its values, as in [Basis].
func HashScope(scope map[string]string) map[string]string {
	if len(scope) == 0 {
		return nil
	}
	hashed := make(map[string]string, len(scope))
	for key, value := range scope {
		if hashed[key] = ""; value != "" {
			sum := sha256.Sum256([]byte(value))
			hashed[key] = hex.EncodeToString(sum[:])
		}
	}
	return hashed
}
