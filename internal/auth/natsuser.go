package auth

import (
	"cmp"
	"crypto/rand"
	"strings"
)

// User is what the server calls a connection that has shown a token, see [auth.Principal.User]. Tenant and Actor
// are tokens of subjects.
type User struct {
	Role          Role
	Tenant, Actor string
	Family        string // of the token
}

// ParseUser reads the name of a user; ok is false for users who have shown no token.
func ParseUser(name string) (u User, ok bool) {
	part := strings.Split(name, ".")
	if len(part) != 4 {
		return u, false
	}
	return User{Role(part[0]), part[1], part[2], part[3]}, true
}

// connectionPrefix starts the names of the connections of executors.
const connectionPrefix = "executor "

// ConnectionName is how an executor names its connection, so that it is let in as the instance that it is.
func ConnectionName(instance string) string { return connectionPrefix + instance }

// Bounds of the names of instances.
const (
	familyPart  = 8
	randomPart  = 12
	maxInstance = 64
)

// InstancePrefix is how the instances of executors begin that have a token of p, so that no two tokens share one.
func InstancePrefix(p Principal) string {
	own := cmp.Or(strings.TrimPrefix(p.Family, p.Root()), p.Family) // that of a narrowed token begins with its root
	return own[:min(familyPart, len(own))] + "-"
}

// NewInstanceID returns one that no other process has.
func NewInstanceID(p Principal) string {
	return InstancePrefix(p) + strings.ToLower(rand.Text()[:randomPart])
}

// Instance returns the instance that a connection of an executor with a token of p asks to be. ok is false where it may
// not be that.
func Instance(p Principal, connection string) (instance string, ok bool) {
	instance, named := strings.CutPrefix(connection, connectionPrefix)
	own, ok := strings.CutPrefix(instance, InstancePrefix(p))
	return instance, named && ok && own != "" && len(instance) <= maxInstance && IsName(own)
}

// MaxName is the longest name, in bytes, of a deployment and of an instance below its prefix.
const MaxName = 64

// IsName reports whether s is a name: ASCII letters, digits, "-" and "_".
func IsName(s string) bool {
	return s != "" && len(s) <= MaxName && !strings.ContainsFunc(s, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_')
	})
}
