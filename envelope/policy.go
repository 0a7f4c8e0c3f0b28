package envelope

// PolicyVersions are the SHA-256 digests, in hexadecimal, of the three documents of a policy set.
type PolicyVersions struct {
	Roles        string `json:"roles"`
	Lanes        string `json:"lanes"`
	ToolRegistry string `json:"tool_registry"`
}

// All returns the digests in the order of the fields.
func (v PolicyVersions) All() []string { return []string{v.Roles, v.Lanes, v.ToolRegistry} }
