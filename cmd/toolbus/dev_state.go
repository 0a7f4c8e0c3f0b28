package main

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
)

// devStates returns the folder of the state folders of `toolbus dev` without --data-dir.
func (e *environment) devStates() string {
	return filepath.Join(cmp.Or(e.state, filepath.Join(e.home, ".local", "state")), "toolbus")
}

// devState returns the state folder of the last `toolbus dev` without --data-dir.
func (e *environment) devState() string { return filepath.Join(e.devStates(), "latest") }

// exampleState returns the state folder of `toolbus dev --examples` without --data-dir.
func (e *environment) exampleState() string { return filepath.Join(e.devStates(), "examples") }

// devStateOf returns the state folder of `toolbus dev` without --data-dir, with a folder of tools: one name for each
// folder, whatever links lead to it.
func (e *environment) devStateOf(tools string) (string, error) {
	abs, err := filepath.Abs(tools)
	if err == nil {
		abs, err = filepath.EvalSymlinks(abs)
	}
	if err != nil {
		return "", fmt.Errorf("tools folder: %w", err)
	}
	name := filepath.Base(abs)
	if name == "tools" {
		name = filepath.Base(filepath.Dir(abs))
	}
	sum := sha256.Sum256([]byte(abs))
	return filepath.Join(e.devStates(), fmt.Sprintf("%s-%x", name, sum[:4])), nil
}

func checkState(dir string) error {
	if dir == "" {
		return usagef("--data-dir is empty: name a folder for streams, keys and credentials")
	}
	return nil
}

// linkLatest lets devState lead to a state folder.
func (e *environment) linkLatest(state string) error {
	link := fmt.Sprintf("%s.%d", e.devState(), os.Getpid())
	err := os.Symlink(filepath.Base(state), link)
	if err == nil {
		err = os.Rename(link, e.devState())
	}
	if err != nil {
		_ = os.Remove(link)
		return fmt.Errorf("state directory: %w", err)
	}
	return nil
}
