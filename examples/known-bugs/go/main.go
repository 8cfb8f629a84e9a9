// Stores of Go, each as a program that saves and says so, and as its own judge server.
//
//	stores setup NAME   makes the empty store in the working directory
//	stores save NAME    puts the keys 0 to 3, and prints `key N` when the store has said that N is saved
//	stores judge NAME   answers for each line `PATH <tab> FILE OF ACKNOWLEDGEMENTS`
//	stores check NAME   judges the working directory, with the acknowledgements on standard input
//
// A child looks at each state, because a store may crash on what it finds.
package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/syndtr/goleveldb/leveldb"
	"github.com/syndtr/goleveldb/leveldb/opt"
	bolt "go.etcd.io/bbolt"
)

const keys = 4

// Longest time that a store may take to open.
const patience = 3 * time.Second

type store interface {
	put(key, value string) error
	all() (map[string]string, error)
	close() error
}

func value(key int) string {
	return strings.Repeat(fmt.Sprintf("%d-", key), 3000)
}

var bucket = []byte("bucket")

type boltStore struct{ db *bolt.DB }

func (s boltStore) put(key, value string) error {
	return s.db.Update(func(tx *bolt.Tx) error {
		found, err := tx.CreateBucketIfNotExists(bucket)
		if err != nil {
			return err
		}
		return found.Put([]byte(key), []byte(value))
	})
}

func (s boltStore) all() (map[string]string, error) {
	found := map[string]string{}
	err := s.db.View(func(tx *bolt.Tx) error {
		for err := range tx.Check() {
			return err
		}
		bucket := tx.Bucket(bucket)
		if bucket == nil {
			return nil
		}
		return bucket.ForEach(func(key, value []byte) error {
			found[string(key)] = string(value)
			return nil
		})
	})
	return found, err
}

func (s boltStore) close() error { return s.db.Close() }

type levelStore struct {
	db   *leveldb.DB
	sync bool
}

func (s levelStore) put(key, value string) error {
	return s.db.Put([]byte(key), []byte(value), &opt.WriteOptions{Sync: s.sync})
}

func (s levelStore) all() (map[string]string, error) {
	found := map[string]string{}
	each := s.db.NewIterator(nil, nil)
	defer each.Release()
	for each.Next() {
		found[string(each.Key())] = string(each.Value())
	}
	return found, each.Error()
}

func (s levelStore) close() error { return s.db.Close() }

func open(name string) (store, error) {
	switch name {
	case "bbolt", "bbolt-nosync":
		options := &bolt.Options{Timeout: patience, NoSync: name == "bbolt-nosync"}
		db, err := bolt.Open("bolt.db", 0o644, options)
		return boltStore{db}, err
	case "goleveldb", "goleveldb-sync":
		db, err := leveldb.OpenFile("level", nil)
		return levelStore{db, name == "goleveldb-sync"}, err
	}
	return nil, fmt.Errorf("there is no store %s", name)
}

func save(name string) error {
	s, err := open(name)
	if err != nil {
		return err
	}
	for key := range keys {
		if err := s.put(fmt.Sprint(key), value(key)); err != nil {
			return err
		}
		fmt.Println("key", key)
	}
	// The store is not closed: closing may sync what putting did not.
	return nil
}

func check(name string, acked io.Reader) error {
	s, err := open(name)
	if err != nil {
		return fmt.Errorf("it does not open: %w", err)
	}
	found, err := s.all()
	if err != nil {
		return fmt.Errorf("it cannot be read: %w", err)
	}
	for key, text := range found {
		var number int
		if _, err := fmt.Sscan(key, &number); err != nil || text != value(number) {
			return fmt.Errorf("the value of key %s is damaged", key)
		}
	}
	for lines := bufio.NewScanner(acked); lines.Scan(); {
		key, is := strings.CutPrefix(lines.Text(), "key ")
		if _, there := found[key]; is && !there {
			return fmt.Errorf("key %s was acknowledged and is not there", key)
		}
	}
	return nil
}

func judged(name, dir, acked string) string {
	file, err := os.Open(acked)
	if err != nil {
		return "bad " + err.Error()
	}
	defer file.Close()
	var said bytes.Buffer
	child := exec.Command(os.Args[0], "check", name)
	child.Dir, child.Stdin, child.Stdout, child.Stderr = dir, file, &said, &said
	if err := child.Start(); err != nil {
		return "bad " + err.Error()
	}
	timer := time.AfterFunc(patience, func() { child.Process.Kill() })
	err = child.Wait()
	if !timer.Stop() {
		return "bad it hangs"
	}
	if err == nil {
		return "ok"
	}
	first, _, _ := strings.Cut(said.String(), "\n")
	return "bad " + first
}

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: stores setup|save|judge|check NAME")
		os.Exit(2)
	}
	name := os.Args[2]
	var err error
	switch os.Args[1] {
	case "setup":
		var s store
		if s, err = open(name); err == nil {
			err = s.close()
		}
	case "save":
		err = save(name)
	case "judge":
		for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
			dir, acked, _ := strings.Cut(lines.Text(), "\t")
			fmt.Println(judged(name, dir, acked))
		}
	case "check":
		err = check(name, os.Stdin)
	default:
		err = fmt.Errorf("there is no part %s", os.Args[1])
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}
