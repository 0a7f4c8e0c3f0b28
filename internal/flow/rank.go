package flow

// Standing is how many open items a family of actors has, beside all of its tenant and all of all tenants. Families and
// Tenants are the numbers of those that have any: families of the tenant, and tenants.
type Standing struct{ Family, Families, Tenant, Tenants, All int }

// tenantFew is how many times as many items as a family a tenant may have and still has few.
const tenantFew = 4

// Rank returns the step from 0 to 3 in which the newest item of a family waits. Items of lower steps go first:
//
//   - 0: the family has at most few items, and its tenant at most four times as many.
//   - 1: the family has at most few.
//   - 2: the tenant has at most four times few; or the family has at most half as many as those of its tenant have on
//     average, or the tenant at most half as many as tenants have on average.
//   - 3: all others.
//
// Items of a step go in the order in which they came. So a family with few items is ahead of a backlog, of another
// tenant or of its own, and a tenant is not served more because it has more actors.
func (s Standing) Rank(few int) (step int) {
	switch {
	case s.Family <= few && s.Tenant <= tenantFew*few:
		return 0
	case s.Family <= few:
		return 1
	case s.Tenant <= tenantFew*few || 2*s.Family*s.Families <= s.Tenant || 2*s.Tenant*s.Tenants <= s.All:
		return 2
	}
	return 3
}
