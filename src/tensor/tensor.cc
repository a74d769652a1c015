#include "tensor/tensor.h"

#include "base/str_cat.h"

namespace tessera {

std::string shape_text(const Shape& shape) { return list_text(shape.dims()); }

}  // namespace tessera
