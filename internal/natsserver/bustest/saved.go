package bustest

import (
	"os"
)

// Saved returns a folder with a copy of the server's storage, for Restored. It restarts the server.
func (b *Bus) Saved() string {
	b.T.Helper()
	b.Srv.Stop()
	dir := b.T.TempDir()
	if err := os.CopyFS(dir, os.DirFS(b.Srv.Dir())); err != nil {
		b.T.Fatal(err)
	}
	b.Srv.Restart()
	return dir
}

// Restored replaces the server's storage by a copy of Saved, as a power cut may do. It restarts the server.
func (b *Bus) Restored(dir string) {
	b.T.Helper()
	b.Srv.Stop()
	if err := os.RemoveAll(b.Srv.Dir()); err != nil {
		b.T.Fatal(err)
	}
	if err := os.CopyFS(b.Srv.Dir(), os.DirFS(dir)); err != nil {
		b.T.Fatal(err)
	}
	b.Srv.Restart()
}
