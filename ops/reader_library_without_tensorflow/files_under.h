#ifndef TFQUIVER_OPS_READER_LIBRARY_WITHOUT_TENSORFLOW_FILES_UNDER_H_
#define TFQUIVER_OPS_READER_LIBRARY_WITHOUT_TENSORFLOW_FILES_UNDER_H_

#include <dirent.h>
#include <sys/stat.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace tfquiver {

// What the kernel says of a file.
struct FileNumbers {
  uint64_t size_bytes;
  int64_t modified_ns;
  uint64_t inode;
};

// Files that were found, in the order of their names.
struct FilesFound {
  std::string names;  // each with a zero behind it
  std::vector<FileNumbers> numbers;

  void Append(const FilesFound& other);
  // False: its time is none that 64 bits hold.
  bool AddNumbers(const struct stat& status);
  // What a listing key is made of (tfquiver/listing/listing_terms.py): of each file its URI, which
  // is `prefix` and its name, its size and its generation, each behind its length.
  std::string Listing(std::string_view prefix) const;
};

// Whether all of the parts are sound. In several threads, where there are many; ends with the first
// that is not.
bool ForEach(size_t parts, const std::function<bool(size_t)>& is_sound);

// The regular files under a directory whose names a pattern means, sorted by name: looked at
// without Python, which makes objects of each. Blocks on the disk.
//
// It knows the usual only, and says so: then somebody else has to look, who knows all cases and
// tells what is wrong.
class FilesUnder {
 public:
  // `every`: names that begin with a dot, too, and links are none of the files, nor followed.
  explicit FilesUnder(bool every) : every_(every) {}

  // `pattern`: of names with `/` between them, in which `*` stands for any characters and `?` for
  // one. `but_suffix`: files whose names end so are not meant; "": all are. False: somebody else
  // has to look; what was found is nothing.
  bool Look(const std::string& root, std::string_view pattern, std::string_view but_suffix);

  // Their names are what is behind `root`.
  FilesFound& found() { return found_; }

 private:
  struct Name {
    std::string text;
    unsigned char type;
  };

  // Adds the directories that the files are in, as they are called behind the root, each with a
  // `/`.
  bool AddDirectories(int directory, size_t level, const std::string& above,
                      std::vector<std::string>* found) const;
  bool LookIn(int root, const std::string& directory, FilesFound* found) const;
  bool Take(int directory, const std::string& above, const Name* first, const Name* last,
            FilesFound* found) const;
  bool NamesIn(DIR* directory, const std::string& part, std::vector<Name>* found) const;
  int Open(int directory, const std::string& name) const;
  bool IsMeant(std::string_view name) const;

  const bool every_;
  std::vector<std::string> parts_;  // of the pattern
  std::string but_suffix_;
  FilesFound found_;
};

}  // namespace tfquiver

#endif  // TFQUIVER_OPS_READER_LIBRARY_WITHOUT_TENSORFLOW_FILES_UNDER_H_
