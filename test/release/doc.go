// Package release tests what users get: the programs that `go install` and `make release` make, and the services of
// deploy/compose.yaml.
package release
