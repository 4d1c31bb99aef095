package majority

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/printer"
	"go/token"
	"hash/crc32"
	"path/filepath"
	"testing"
)

// copied are the functions of package quorum that client.go, holder.go and breaks.go copy, each
// with the checksum of the body with which its copy was last compared.
var copied = map[string]string{
	"admin.go evict":          "b6c5bf6e",
	"admin.go force":          "d014c915",
	"admin.go takes":          "6fec0cab",
	"admin.go waiterOf":       "a94b4342",
	"call.go answered":        "eabd9ec5",
	"call.go begin":           "7e72ac16",
	"call.go enter":           "ab6d7c7f",
	"call.go judge":           "cddd88c2",
	"call.go keep":            "0ae92619",
	"call.go settle":          "6436e121",
	"hold.go Renew":           "2ae02605",
	"hold.go confirm":         "58f231fa",
	"hold.go outcome":         "7655abd6",
	"hold.go renewIn":         "f10e273c",
	"hold.go renewedIn":       "69f484bf",
	"hold.go strive":          "6eefbd20",
	"hold.go tell":            "41c2eb71",
	"leave.go abandon":        "64130fc1",
	"line.go beat":            "27d87a7b",
	"line.go beatFor":         "9f88937b",
	"line.go beatEnded":       "cd89d571",
	"line.go beaten":          "841ea0c2",
	"line.go enqueue":         "c5c98685",
	"line.go lacking":         "734c8059",
	"line.go look":            "685f5432",
	"line.go returned":        "727f398d",
	"line.go up":              "41897953",
	"locker.go lostVote":      "f5cdc867",
	"locker.go message":       "f06a9364",
	"release.go beginRelease": "06ad9b4d",
	"view.go holderOf":        "880b5eaa",
}

func TestTheModelCopiesTheDriversAsTheyAre(t *testing.T) {
	files, err := filepath.Glob("../../quorum/*.go")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, file := range files {
		all := token.NewFileSet()
		parsed, err := parser.ParseFile(all, file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range parsed.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			name := filepath.Base(file) + " " + f.Name.Name
			was, ok := copied[name]
			if !ok {
				continue
			}
			found++
			if is := sum(t, all, f.Body); is != was {
				t.Errorf("%s has changed: compare its copy here, and write down %s", name, is)
			}
		}
	}
	if found != len(copied) {
		t.Errorf("%d of the %d functions are there", found, len(copied))
	}
}

// sum is a checksum of the code, whatever comments and lines it has.
func sum(t *testing.T, all *token.FileSet, body *ast.BlockStmt) string {
	t.Helper()
	var text bytes.Buffer
	if err := printer.Fprint(&text, all, body); err != nil { // the parser has left out the comments
		t.Fatal(err)
	}
	return fmt.Sprintf("%08x", crc32.ChecksumIEEE(bytes.Join(bytes.Fields(text.Bytes()), []byte(" "))))
}
