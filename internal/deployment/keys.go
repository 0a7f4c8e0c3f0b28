package deployment

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/nats-io/nkeys"

	"github.com/seed-018f16cc/toolbus/internal/auth"
)

// Keys are the secrets of a deployment. A process that has them can sign any token and act as a dispatcher.
type Keys struct {
	Deployment string        // name of the deployment, which tokens contain
	Token      nkeys.KeyPair // first signing key of tokens, see [Keys.Signing]
	Issuer     nkeys.KeyPair // signs the answers of the auth callout
	XKey       nkeys.KeyPair // encrypts the requests of the auth callout, and secrets in the bucket control
	Dispatcher nkeys.KeyPair // user of the account TB
	Callout    nkeys.KeyPair // user of the account AUTH
	System     nkeys.KeyPair // user of the account SYS
	Profile    string        // profile of the deployment, see [Profiles]; "" if unknown
}

// secret is a key in [Keys] with the name of the file that holds its seed.
type secret struct {
	file string
	key  *nkeys.KeyPair
	kind nkeys.PrefixByte
}

func (k *Keys) secrets() []secret {
	return []secret{
		{"token.nk", &k.Token, nkeys.PrefixByteUser},
		{"issuer.nk", &k.Issuer, nkeys.PrefixByteAccount},
		{"xkey.nk", &k.XKey, nkeys.PrefixByteCurve},
		{"dispatcher.nk", &k.Dispatcher, nkeys.PrefixByteUser},
		{"callout.nk", &k.Callout, nkeys.PrefixByteUser},
		{"system.nk", &k.System, nkeys.PrefixByteUser},
	}
}

// fileDeployment holds the name of the deployment. Create writes it last: a folder that contains it has all keys.
const fileDeployment = "deployment"

// fileProfile holds the name of the profile, in the folder of the secrets.
const fileProfile = "profile"

// NewKeys generates the secrets of a new deployment.
func NewKeys(deployment string) (*Keys, error) {
	if !auth.IsName(deployment) {
		return nil, fmt.Errorf("a deployment is called by 1 to %d letters, digits, - and _, and not %q",
			auth.MaxName, deployment)
	}
	k := &Keys{Deployment: deployment}
	for _, s := range k.secrets() {
		create := func() (nkeys.KeyPair, error) { return nkeys.CreatePair(s.kind) }
		if s.kind == nkeys.PrefixByteCurve {
			create = nkeys.CreateCurveKeys
		}
		var err error
		if *s.key, err = create(); err != nil {
			return nil, fmt.Errorf("make %s: %w", s.file, err)
		}
	}
	return k, nil
}

// Create generates the secrets of a new deployment and writes them to a folder that only its owner may read. If the
// folder has secrets, Create changes nothing and returns an [fs.ErrExist].
func Create(dir, deployment string) (*Keys, error) {
	k, err := NewKeys(deployment)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("keys: %w", err)
	}
	if err := private(dir); err != nil {
		return nil, err
	}
	if _, err := os.Lstat(filepath.Join(dir, fileDeployment)); err == nil {
		return nil, fmt.Errorf("keys: %s has some: %w", dir, fs.ErrExist)
	}
	for _, s := range k.secrets() {
		text, err := (*s.key).Seed()
		if err == nil {
			err = write(filepath.Join(dir, s.file), text)
		}
		if err != nil {
			return nil, fmt.Errorf("keys: %w", err)
		}
	}
	if err := write(filepath.Join(dir, fileDeployment), []byte(deployment)); err != nil {
		return nil, fmt.Errorf("keys: %w", err)
	}
	return k, nil
}

// write replaces a file atomically: a truncated seed would be taken for the secret.
func write(file string, text []byte) error {
	tmp := file + ".tmp"
	f, err := os.OpenFile(tmp, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(append(slices.Clone(text), '\n'))
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(tmp, file)
}

// Load reads the secrets that [Create] has written. It returns an error if other users may read them, and an
// [fs.ErrNotExist] if the folder has none.
func Load(dir string) (*Keys, error) {
	name, err := read(filepath.Join(dir, fileDeployment))
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%w\nname the folder of secrets that `toolbus keys init DIR` wrote: DIR/keys", err)
	}
	if err != nil {
		return nil, err
	}
	if err := private(dir); err != nil {
		return nil, err
	}
	k := &Keys{Deployment: name}
	if !auth.IsName(name) {
		return nil, fmt.Errorf("keys: %s holds no name of a deployment", filepath.Join(dir, fileDeployment))
	}
	for _, s := range k.secrets() {
		file := filepath.Join(dir, s.file)
		text, err := read(file)
		if err != nil {
			return nil, err
		}
		kind, _, err := nkeys.DecodeSeed([]byte(text))
		if err == nil && kind != s.kind {
			err = errors.New("a seed of another kind")
		}
		if err == nil {
			*s.key, err = nkeys.FromSeed([]byte(text))
		}
		if err != nil {
			return nil, fmt.Errorf("keys: %s: %w", file, err)
		}
	}
	if k.Profile, err = read(filepath.Join(dir, fileProfile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return k, nil
}

// LoadOrCreate calls [Load], and [Create] if the folder has no secrets.
func LoadOrCreate(dir, deployment string) (*Keys, error) {
	k, err := Load(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return Create(dir, deployment)
	}
	return k, err
}

func read(file string) (string, error) {
	if err := private(file); err != nil {
		return "", err
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("keys: %w", err)
	}
	return strings.TrimSuffix(string(text), "\n"), nil
}

// private returns an error if other users may read or write a file or folder.
func private(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("keys: %w", err)
	}
	if mode := info.Mode().Perm(); mode&0o077 != 0 {
		return fmt.Errorf("keys: %s may be read by others (mode %04o): run chmod go= %s", path, mode, path)
	}
	return nil
}

// Signing returns the first signing key of tokens.
func (k *Keys) Signing() (ed25519.PrivateKey, error) {
	text, err := k.Token.Seed()
	if err != nil {
		return nil, err
	}
	_, raw, err := nkeys.DecodeSeed(text)
	if err != nil {
		return nil, err
	}
	return ed25519.NewKeyFromSeed(raw), nil
}

// KeyID returns the id of a signing key, which tokens contain.
func KeyID(public ed25519.PublicKey) string {
	sum := sha256.Sum256(public)
	return hex.EncodeToString(sum[:8])
}

// Signer returns a signer of tokens with the first key.
func (k *Keys) Signer() (*auth.Signer, error) {
	key, err := k.Signing()
	if err != nil {
		return nil, err
	}
	return auth.NewSigner(k.Deployment, KeyID(key.Public().(ed25519.PublicKey)), key)
}

// Keyring returns a keyring that contains only the first key.
func (k *Keys) Keyring() (*auth.Keyring, error) {
	key, err := k.Signing()
	if err != nil {
		return nil, err
	}
	public := key.Public().(ed25519.PublicKey) // the documented type of Public
	return auth.NewKeyring(k.Deployment, map[string]auth.Key{KeyID(public): {Public: public}}), nil
}

// Public holds the public keys that the server configuration contains. None of it is secret.
type Public struct{ Issuer, XKey, Dispatcher, Callout, System string }

// Public returns the public keys.
func (k *Keys) Public() (p Public, err error) {
	for _, one := range []struct {
		key nkeys.KeyPair
		is  *string
	}{
		{k.Issuer, &p.Issuer}, {k.XKey, &p.XKey}, {k.Dispatcher, &p.Dispatcher}, {k.Callout, &p.Callout},
		{k.System, &p.System},
	} {
		public, bad := one.key.PublicKey()
		*one.is, err = public, errors.Join(err, bad)
	}
	return p, err
}
