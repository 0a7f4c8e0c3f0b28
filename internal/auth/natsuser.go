package auth

import (
	"cmp"
	"crypto/rand"
	"strings"
)

// User is the parsed NATS user name of a connection with a token, see [Principal.User]. Tenant and Actor are tokens of
// a subject.
type User struct {
	Role          Role
	Tenant, Actor string
	Family        string // of the token
}

// ParseUser parses the name of a NATS user. ok is false for the name of a user without a token.
func ParseUser(name string) (u User, ok bool) {
	part := strings.Split(name, ".")
	if len(part) != 4 {
		return u, false
	}
	return User{Role(part[0]), part[1], part[2], part[3]}, true
}

// connectionPrefix is the prefix of the connection names of executors.
const connectionPrefix = "executor "

// ConnectionName returns the name that an executor must give its connection. The auth callout reads the instance from
// it and grants the permissions of that instance.
func ConnectionName(instance string) string { return connectionPrefix + instance }

// Lengths of the parts of an instance id, in bytes.
const (
	familyPart  = 8
	randomPart  = 12
	maxInstance = 64
)

// InstancePrefix returns the prefix of the instance ids that an executor with a token of p may use. It is a part of the
// family, so executors with tokens of different credentials do not share an instance id.
func InstancePrefix(p Principal) string {
	own := cmp.Or(strings.TrimPrefix(p.Family, p.Root()), p.Family) // that of a narrowed token begins with its root
	return own[:min(familyPart, len(own))] + "-"
}

// NewInstanceID returns a new random instance id for an executor with a token of p.
func NewInstanceID(p Principal) string {
	return InstancePrefix(p) + strings.ToLower(rand.Text()[:randomPart])
}

// Instance returns the instance id in the name of a connection of an executor with a token of p. ok is false if the
// name contains none, or one that p may not use.
func Instance(p Principal, connection string) (instance string, ok bool) {
	instance, named := strings.CutPrefix(connection, connectionPrefix)
	own, ok := strings.CutPrefix(instance, InstancePrefix(p))
	return instance, named && ok && own != "" && len(instance) <= maxInstance && IsName(own)
}

// MaxName is the largest length, in bytes, of the name of a deployment and of an instance id without its prefix.
const MaxName = 64

// IsName reports whether s is a name: 1 to [MaxName] ASCII letters, digits, "-" and "_".
func IsName(s string) bool {
	return s != "" && len(s) <= MaxName && !strings.ContainsFunc(s, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_')
	})
}
