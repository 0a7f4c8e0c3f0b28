package oauth

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"errors"

	"github.com/go-json-experiment/json"
)

// Store holds sealed entries, which all executors of a bus share.
type Store interface {
	// Read returns an entry and its revision, which is 0 if the store lacks it.
	Read(ctx context.Context, id string) (data []byte, revision uint64, err error)
	// Write stores an entry if its revision is still the given one. It reports whether it was.
	Write(ctx context.Context, id string, data []byte, revision uint64) (stored bool, err error)
}

// entry is the state of a grant, which lies sealed on the bus.
type entry struct {
	Generation uint64 `json:"generation"` // grows with every renewal
	Tokens     Tokens `json:"tokens"`
	Holder     string `json:"holder,omitzero"`  // token of the process that renews
	Refused    string `json:"refused,omitzero"` // why the authorization server renews no more
}

// errSeal means that an entry was not sealed with the key of the grant, or was changed.
var errSeal = errors.New("the entry of the login on the bus was changed, or is not of this login")

// sealer returns the cipher of a grant.
func (g Grant) sealer() (cipher.AEAD, error) {
	block, err := aes.NewCipher(g.Key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCMWithRandomNonce(block)
}

// bound returns the additional data of the seal: an entry opens only under its own name and for its own server.
func (g Grant) bound() []byte { return []byte("toolbus oauth 1\x00" + g.ID() + "\x00" + g.Server) }

func (g Grant) seal(e entry) ([]byte, error) {
	plain, err := json.Marshal(e)
	if err != nil {
		return nil, err
	}
	box, err := g.sealer()
	if err != nil {
		return nil, err
	}
	return box.Seal(nil, nil, plain, g.bound()), nil
}

func (g Grant) open(data []byte) (e entry, err error) {
	box, err := g.sealer()
	if err != nil {
		return e, err
	}
	plain, err := box.Open(nil, nil, data, g.bound())
	if err != nil || json.Unmarshal(plain, &e) != nil {
		return e, errSeal
	}
	return e, nil
}
