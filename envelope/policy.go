package envelope

import "time"

// PolicyVersions are the SHA-256 digests, in hexadecimal, of the three documents of a policy set.
type PolicyVersions struct {
	Roles        string `json:"roles,omitzero"`
	Lanes        string `json:"lanes,omitzero"`
	ToolRegistry string `json:"tool_registry,omitzero"`
}

// All returns the digests in the order of the fields.
func (v PolicyVersions) All() []string { return []string{v.Roles, v.Lanes, v.ToolRegistry} }

// PolicyPartRequest stores one part of a document of a policy set, before a [PolicyPushRequest] puts it in force. All
// parts but the last have [PolicyPartBytes].
type PolicyPartRequest struct {
	SHA256 string `json:"sha256"` // of the whole document
	Part   int    `json:"part"`   // from 0
	Body   []byte `json:"body"`
}

// PolicyPartBytes is the size of the parts of a document of a policy set. The last part is shorter, and may be empty.
const PolicyPartBytes = 256 << 10

// PolicyReadRequest asks for one part of a stored document.
type PolicyReadRequest struct {
	SHA256 string `json:"sha256"`
	Part   int    `json:"part"` // from 0
}

// PolicyReadResponse is the answer to a [PolicyReadRequest].
type PolicyReadResponse struct {
	Body []byte `json:"body"`
}

// PolicyPushRequest puts the set of stored documents in force if the policy in force has the revision Expected. It is 0
// for the first policy of a bus.
type PolicyPushRequest struct {
	Versions PolicyVersions `json:"versions"`
	Expected uint64         `json:"expected"`
	Reason   string         `json:"reason,omitzero"` // at most [MaxReason] bytes
}

// MaxReason is the largest size, in bytes, of the reason that an operator gives.
const MaxReason = 1000

// PolicyPushResponse holds the revision that the push has made. Dispatchers decide by it within 1 s.
type PolicyPushResponse struct {
	Revision uint64 `json:"revision"`
}

// PolicyHistoryResponse lists the versions of the policy, at most 64, the one in force first.
type PolicyHistoryResponse struct {
	Versions []PolicyVersion `json:"versions"`
}

// PolicyVersion is one version of the policy of a bus.
type PolicyVersion struct {
	Revision uint64         `json:"revision"` // greater for later versions
	At       time.Time      `json:"at"`       // since when it was in force
	By       string         `json:"by"`       // tenant and actor of the operator, with a slash between
	Reason   string         `json:"reason,omitzero"`
	Versions PolicyVersions `json:"versions"`
}
