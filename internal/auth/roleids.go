package auth

import (
	"fmt"
	"slices"
	"strings"
)

// MaxRoleIDs is the largest number of roles in a token.
const MaxRoleIDs = 32

// maxRoleID is the longest name of a role in a policy.
const maxRoleID = 128

// rolesMark begins the root family of each token with roles. No other family begins with it, because the base32 of
// [NewID] has no digit 1. Builds that do not know the claim renew and narrow such a token without it, but keep the
// root. So the mark tells a token that has lost its roles from one that was issued without.
const rolesMark = "1"

// NewFamily returns a random family for a token with these roles. A token with roles is valid only with such a family.
func NewFamily(roleIDs []string) string { return FamilyFrom(NewID(), roleIDs) }

// FamilyFrom is [NewFamily] for a family that is named by the id of its first token.
func FamilyFrom(id string, roleIDs []string) string {
	if len(roleIDs) == 0 {
		return id
	}
	return rolesMark + id[len(rolesMark):]
}

// Carries returns the roles that calls with the token may have: those of RoleIDs, or the deployment's default role if
// the token was issued without roles. A token that has lost its roles carries none.
func (p Principal) Carries(defaultRole string) []string {
	switch {
	case len(p.RoleIDs) > 0:
		return p.RoleIDs
	case p.lostRoles():
		return nil
	}
	return []string{defaultRole}
}

// lostRoles reports whether a build that does not know roles made the token from one with roles.
func (p Principal) lostRoles() bool {
	return len(p.RoleIDs) == 0 && strings.HasPrefix(p.Root(), rolesMark)
}

// ValidRoleID reports whether s is the name of a role or a lane as a policy has it: at most 128 letters, digits and the
// characters . _ : / - of which the first is a letter or a digit.
func ValidRoleID(s string) bool {
	alphanumeric := func(r rune) bool { return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' }
	if s == "" || len(s) > maxRoleID || !alphanumeric(rune(s[0])) {
		return false
	}
	return !strings.ContainsFunc(s, func(r rune) bool { return !alphanumeric(r) && !strings.ContainsRune("._:/-", r) })
}

// checkRoleIDs returns an error if the roles of p are not valid.
func (p Principal) checkRoleIDs() error {
	switch bad := slices.IndexFunc(p.RoleIDs, func(s string) bool { return !ValidRoleID(s) }); {
	case len(p.RoleIDs) == 0:
		return nil
	case p.Role != Agent:
		return fmt.Errorf("only an agent's token carries roles, and its role is %s", p.Role)
	case len(p.RoleIDs) > MaxRoleIDs:
		return fmt.Errorf("%d roles are too many: at most %d", len(p.RoleIDs), MaxRoleIDs)
	case bad >= 0:
		return fmt.Errorf("%.40q is not a role: use at most %d letters, digits and . _ : / - and begin with a letter or "+
			"a digit", p.RoleIDs[bad], maxRoleID)
	case !strings.HasPrefix(p.Root(), rolesMark):
		return fmt.Errorf("the family of a token with roles begins with %s", rolesMark)
	}
	return nil
}

// narrowRoleIDs returns the roles of a token that is narrowed from p: those that are asked for, or all.
func (p Principal) narrowRoleIDs(wanted []string) ([]string, error) {
	if len(wanted) == 0 {
		return p.RoleIDs, nil
	}
	for _, r := range wanted {
		if !slices.Contains(p.RoleIDs, r) {
			return nil, fmt.Errorf("%w: it does not carry the role %.40q", ErrScopeExceeded, r)
		}
	}
	return sorted(wanted), nil
}
