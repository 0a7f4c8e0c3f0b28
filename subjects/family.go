package subjects

import "strings"

// Family returns the head of the family of an actor: the actor without the names of sub-actors, such as agent://a for
// agent://a/b/c. It is the same for an actor and for all that tokens narrowed from its tokens can name. The slashes of
// "agent://" do not count.
func Family(actor string) string { return head(actor, "/", ":") }

// FamilyToken is [Family] for an actor as it is encoded in a subject. Digested tokens of actors with the same first
// bytes have the same family: the part that would tell them apart cannot be read, and their requests are refused.
func FamilyToken(token string) string {
	token, _, _ = strings.Cut(token, digestMark)
	return head(token, "_2f", "_3a")
}

// head returns name up to its first slash that follows neither a colon nor another slash.
func head(name, slash, colon string) string {
	for at := 0; ; at += len(slash) {
		i := strings.Index(name[at:], slash)
		if i < 0 {
			return name
		}
		at += i
		if of := name[:at]; of != "" && !strings.HasSuffix(of, slash) && !strings.HasSuffix(of, colon) {
			return of
		}
	}
}
